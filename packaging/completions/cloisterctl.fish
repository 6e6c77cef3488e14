# SPDX-License-Identifier: Apache-2.0
# fish completion for cloisterctl(1).

# Prints the command and its operands from the words before the cursor.
function __cloisterctl_words
    set -l skip 0
    for word in (commandline -opc)[2..-1]
        if test $skip = 1
            set skip 0
        else if contains -- $word --socket --tenant --contains --format --workspace --expires --name --keys
            set skip 1
        else if not string match -q -- '-*' $word
            printf '%s\n' $word
        end
    end
end

# Whether these are the command and its operands.
function __cloisterctl_after
    set -l words (__cloisterctl_words)
    test "$words" = "$argv"
end

function __cloisterctl_wants_command
    __cloisterctl_after; or __cloisterctl_after help
end

# __cloisterctl_ask COMMAND MEMBER: names that the service lists, without those that JSON escapes.
function __cloisterctl_ask
    set -l words (commandline -opc)
    set -l socket
    for i in (seq 2 (count $words))
        if test $words[$i] = --socket
            set socket --socket $words[(math $i + 1)]
        else if string match -q -- '--socket=*' $words[$i]
            set socket $words[$i]
        end
    end
    timeout 2 cloisterctl $socket --json $argv[1] 2>/dev/null |
        string replace -rf -- '^ *"'$argv[2]'": *"([^"\\\\]*)",*$' '$1' | sort -u
end

complete -c cloisterctl -f
complete -c cloisterctl -l socket -r -F -d 'The control socket'
complete -c cloisterctl -l tenant -x -a '(__cloisterctl_ask tenants tenant)' -d 'The tenant of the workspace'
complete -c cloisterctl -l json -d 'Print the result as JSON'
complete -c cloisterctl -l contains -x -d 'audit verify: the log has a line with this hash'
complete -c cloisterctl -l format -x -a 'openmetrics prometheus' -d 'metrics: the format'
complete -c cloisterctl -s v -l verbose -d 'selftest: print every probe'
complete -c cloisterctl -s f -l follow -d 'denials: print new ones as they come'
complete -c cloisterctl -l agent-check -d 'health: print a line for agent-check of HAProxy'
complete -c cloisterctl -l replace -d 'template import: take the place of one of this name'
complete -c cloisterctl -l moved-to -x -d 'drain: the host that clients are to go to'
complete -c cloisterctl -l ignore-full -d 'health: used up slots are no fault'
complete -c cloisterctl -l workspace -x -d 'key new: the only workspace that the key may use'
complete -c cloisterctl -l expires -x -d 'key new: when the key ends'
complete -c cloisterctl -l name -x -d 'key new: a name of the key'
complete -c cloisterctl -l keys -r -F -d 'key: the file of keys'
complete -c cloisterctl -l help -d 'Print a summary, or what the command takes'
complete -c cloisterctl -l version -d 'Print the version'

complete -c cloisterctl -n __cloisterctl_wants_command -a status -d 'Show the state and what is enforced'
complete -c cloisterctl -n __cloisterctl_wants_command -a health -d 'Say whether the host can take more work'
complete -c cloisterctl -n __cloisterctl_wants_command -a doctor -d 'List what the host lacks'
complete -c cloisterctl -n __cloisterctl_wants_command -a tenants -d 'Show what each tenant has in use'
complete -c cloisterctl -n __cloisterctl_wants_command -a workspaces -d 'Show the workspaces in use'
complete -c cloisterctl -n __cloisterctl_wants_command -a commands -d 'Show the calls in flight'
complete -c cloisterctl -n __cloisterctl_wants_command -a sessions -d 'Show the sessions'
complete -c cloisterctl -n __cloisterctl_wants_command -a show -d 'Show a workspace or a call'
complete -c cloisterctl -n __cloisterctl_wants_command -a kill -d 'End a call, or all calls of a workspace'
complete -c cloisterctl -n __cloisterctl_wants_command -a drain -d 'Refuse new calls'
complete -c cloisterctl -n __cloisterctl_wants_command -a resume -d 'Accept new calls again'
complete -c cloisterctl -n __cloisterctl_wants_command -a selftest -d 'Run the self-test'
complete -c cloisterctl -n __cloisterctl_wants_command -a reload -d 'Reload the configuration'
complete -c cloisterctl -n __cloisterctl_wants_command -a metrics -d 'Print the metrics'
complete -c cloisterctl -n __cloisterctl_wants_command -a denials -d 'Show the connections that commands were refused last'
complete -c cloisterctl -n __cloisterctl_wants_command -a templates -d 'Show the templates of managed workspaces'
complete -c cloisterctl -n __cloisterctl_wants_command -a template -d 'Delete a template'
complete -c cloisterctl -n __cloisterctl_wants_command -a key -d 'Make, list and revoke keys of cloister-gate'
complete -c cloisterctl -n __cloisterctl_wants_command -a events -d 'Print events as they happen'
complete -c cloisterctl -n __cloisterctl_wants_command -a top -d 'Show the calls in flight live'
complete -c cloisterctl -n __cloisterctl_wants_command -a audit -d 'Verify an audit log'
complete -c cloisterctl -n __cloisterctl_wants_command -a help -d 'Print a summary, or what a command takes'
complete -c cloisterctl -n '__cloisterctl_after show; or __cloisterctl_after kill' \
    -a '(__cloisterctl_ask workspaces workspace)' -d Workspace
complete -c cloisterctl -n '__cloisterctl_after show; or __cloisterctl_after kill' \
    -a '(__cloisterctl_ask commands call)' -d Call
complete -c cloisterctl -n '__cloisterctl_after template' -a 'remove import'
complete -c cloisterctl -n 'string match -q "template import *" -- "$(__cloisterctl_words | string join " ")"' -F
complete -c cloisterctl -n '__cloisterctl_after template remove' -a '(__cloisterctl_ask templates template)' -d Template
complete -c cloisterctl -n '__cloisterctl_after key' -a 'new list revoke'
complete -c cloisterctl -n '__cloisterctl_after audit' -a verify
complete -c cloisterctl -n 'string match -q "audit verify*" -- "$(__cloisterctl_words | string join " ")"' -F
