# SPDX-License-Identifier: Apache-2.0
# fish completion for cloisterd(8).

complete -c cloisterd -f
complete -c cloisterd -l config -r -F -d 'The configuration'
complete -c cloisterd -l check -d 'Report its mistakes and exit'
complete -c cloisterd -l doctor -d 'Print what the host lacks and exit'
complete -c cloisterd -l agent-socket -r -F -d 'The socket for agents'
complete -c cloisterd -l control-socket -r -F -d 'The socket for cloisterctl'
complete -c cloisterd -l state-dir -x -a '(__fish_complete_directories)' -d 'Where managed workspaces lie'
complete -c cloisterd -l take-over -d 'Serve in the place of the one that runs'
complete -c cloisterd -l if-replaced -d 'Only if that is another program'
complete -c cloisterd -l detach -d 'Return when the new one serves'
complete -c cloisterd -l user -x -a '(__fish_complete_users)' -d 'The user to become'
complete -c cloisterd -l connection-fd -x -a 3 -d 'Serve one connected socket'
complete -c cloisterd -l only-root -x -d 'The one directory to open, DEV:INO:UID'
complete -c cloisterd -l env -x -d 'A variable of commands'
complete -c cloisterd -l tools -x -a 'basic edit patch sessions' -d 'The tools that models are offered'
complete -c cloisterd -l allow-net -x -d 'A host that commands may connect to'
complete -c cloisterd -l spare-cells -x -d 'Sets of workspace processes that are started in advance'
complete -c cloisterd -l allow-private-net -x -d 'A private network in which such hosts may be'
complete -c cloisterd -l readonly-path -r -F -d 'A directory or file that commands may read'
complete -c cloisterd -l help -d 'Print a summary'
complete -c cloisterd -l version -d 'Print the version'
