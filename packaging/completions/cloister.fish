# SPDX-License-Identifier: Apache-2.0
# fish completion for cloister(1).

# Prints the subcommand and its operands from the words before the cursor, without options and their values.
function __cloister_words
    set -l skip 0
    for word in (commandline -opc)[2..-1]
        if test $skip = 1
            set skip 0
        else if contains -- $word --workspace --socket --format --timeout --key --expect --patch --option --env --idle-timeout \
                --max-size --max-files --label --lease --at-end --shown-at --clear --state
            set skip 1
        else if not string match -q -- '-*' $word
            printf '%s\n' $word
        end
    end
end

function __cloister_command
    test (__cloister_words)[1] = "$argv[1]" 2>/dev/null
end

# Whether the subcommand has this number of operands.
function __cloister_operands
    test (math (count (__cloister_words)) - 1) -eq $argv[1]
end

function __cloister_workspace
    set -l words (commandline -opc)
    for i in (seq 2 (count $words))
        if test $words[$i] = --workspace
            echo $words[(math $i + 1)]
        else if string match -q -- '--workspace=*' $words[$i]
            string replace -- --workspace= '' $words[$i]
        end
    end
end

function __cloister_workspaces
    __fish_complete_directories (commandline -ct | string replace -r -- '^--workspace=' '')
    timeout 2 cloisterctl --json workspaces 2>/dev/null |
        string replace -rf -- '^ *"workspace": *"([A-Za-z0-9._-]*)",*$' '$1'
end

# Prints files relative to the workspace, after a prefix.
function __cloister_files
    set -l base (__cloister_workspace)[-1]
    test -n "$base"; or set base .
    set -l part (commandline -ct | string replace -- "$argv[1]" '')
    for file in $base/$part*
        test -d $file; and set file $file/
        printf '%s\n' $argv[1](string replace -- $base/ '' $file)
    end
end

function __cloister_arguments
    set -l words (__cloister_words)
    set -l known
    switch "$words[2]"
        case read_file
            set known path start_line end_line
        case write_file
            set known path content create_dirs expect
        case list_directory
            set known path recursive pattern
        case run_command
            set known command timeout_ms background name
        case search_files
            set known pattern path file_pattern max_results context offset limit
        case edit_file
            set known path edits expect
        case apply_patch
            set known patch
        case read_output
            set known name wait_for wait_ms after
        case send_input
            set known name input newline eof
        case stop_command
            set known name
    end
    set -l given (string replace -r -- '=.*' '' $words[3..-1])
    set -l current (commandline -ct)
    switch "$current"
        case 'path=*'
            __cloister_files path=
        case 'create_dirs=*' 'recursive=*' 'background=*' 'newline=*' 'eof=*'
            string replace -r -- '=.*' '' $current | string replace -r -- '$' =true
            string replace -r -- '=.*' '' $current | string replace -r -- '$' =false
        case '*'
            for argument in $known
                contains -- $argument $given; or echo $argument=
            end
    end
end

function __cloister_call_options
    printf '%s\n' timeout_ms= idle_timeout_ms= stream=true stream=false stdin= env= stdin_stream=true \
        stdin_stream=false keep_output=true keep_output=false line_numbers=true \
        line_numbers=false encoding=utf-8 encoding=base64 gitignore=true gitignore=false path_base64= cwd= \
        durability=durable durability=fast reply=observation reply=message max_output= key= key_wait_ms= forget_key= yield_ms= transaction=preview \
        blocked_list=true blocked_list=false
end

function __cloister_moves
    __cloister_command put; or __cloister_command get; or __cloister_command export; or __cloister_command import
end

complete -c cloister -f
complete -c cloister -l workspace -x -a '(__cloister_workspaces)' -d 'The workspace'
complete -c cloister -l socket -r -F -d "The service's agent socket"
complete -c cloister -l private -d 'Look for no service'
complete -c cloister -l create -d 'Make the workspace if there is none'
complete -c cloister -l rootfs -d 'The directory is a whole root file system'
complete -c cloister -l allow-net -x -d 'A host that commands may connect to'
complete -c cloister -l allow-private-net -x -d 'A private network in which such hosts may be'
complete -c cloister -l readonly-path -r -F -d 'A directory or file that commands may read'
complete -c cloister -l preview -d 'Of exec and run: keep changes only if you say so'
complete -c cloister -l json -d 'Print JSON, also errors'
complete -c cloister -l help -d 'Print a summary, or what the command takes'
complete -c cloister -l version -d 'Print the version'
complete -c cloister -n 'test (count (__cloister_words)) -eq 0; or test "$(__cloister_words)" = help' \
    -a 'tools call edit exec run shell put get export import workspace checkpoint checkpoints diff rollback freeze fork template session forward watch mcp gate harness help'
complete -c cloister -n '__cloister_command workspace; and __cloister_operands 0' -a 'list info create update remove'
complete -c cloister -n '__cloister_command template; and __cloister_operands 0' -a 'list remove'
complete -c cloister -n '__cloister_command workspace; or __cloister_command fork' -l label -x -d 'A label'
complete -c cloister -n '__cloister_command workspace; or __cloister_command fork' -l lease -x -d 'How long it lasts'
complete -c cloister -n '__cloister_command workspace; or __cloister_command fork' -l at-end -x -a 'close remove' -d 'At the end of the lease'
complete -c cloister -n '__cloister_command workspace; or __cloister_command fork' -l env -x -d 'A variable of commands'
complete -c cloister -n '__cloister_command workspace; or __cloister_command fork' -l shown-at -x -d 'Where commands see it'
complete -c cloister -n '__cloister_command freeze' -l replace -d 'Take the place of a template of this name'
complete -c cloister -n '__cloister_command workspace' -l clear -x -a 'labels lease env' -d 'Take away'
complete -c cloister -n '__cloister_command workspace' -l state -x -a 'open closed' -d 'List only these'
complete -c cloister -n '__cloister_command session; and __cloister_operands 0' -a 'start list read attach write wait end'
complete -c cloister -n '__cloister_command session' -l name -x -d 'start: a name'
complete -c cloister -n '__cloister_command session' -l env -x -d 'start: a variable'
complete -c cloister -n '__cloister_command session' -l stdin -d 'start: it reads what write sends'
complete -c cloister -n '__cloister_command session' -l key -x -d 'start: the same start gets the same'
complete -c cloister -n '__cloister_command session' -l after -x -d 'From this byte of the output on'
complete -c cloister -n '__cloister_command session' -l eof -d 'write: the input ends after it'
complete -c cloister -n '__cloister_command session' -l port -x -d 'wait: until it listens there'
complete -c cloister -n '__cloister_command session' -l contains -x -d 'wait: until its output has this'
complete -c cloister -n '__cloister_command session' -l timeout -x -d 'wait: at most so long'
complete -c cloister -n '__cloister_command harness; and __cloister_operands 0' -a 'claude codex opencode gemini cline zed'
complete -c cloister -n '__cloister_command mcp' -l tools -x -a 'basic edit patch sessions' -d 'The tools'
complete -c cloister -n '__cloister_command harness' -l tools -x -a 'basic edit patch sessions' -d 'The tools'
complete -c cloister -n '__cloister_command mcp' -l env -x -d 'A variable of commands'
complete -c cloister -n '__cloister_command mcp' -l text -d 'Send results as text alone'
complete -c cloister -n '__cloister_command tools' -l format -x -a 'ollama openai mcp' -d 'The form'
complete -c cloister -n '__cloister_command tools' -l limits -d "With the workspace's limits"
complete -c cloister -n '__cloister_command call; or __cloister_command exec' -l timeout -x -d 'A deadline'
complete -c cloister -n '__cloister_moves' -l timeout -x -d 'A deadline'
complete -c cloister -n '__cloister_moves' -l idle-timeout -x -d 'Without a byte'
complete -c cloister -n '__cloister_moves; and not __cloister_command put' -l max-size -x -d 'Bytes at most'
complete -c cloister -n '__cloister_moves; and not __cloister_command put' -l max-files -x -d 'Files at most'
complete -c cloister -n '__cloister_command get' -l any-links -d 'Links that lead out too'
complete -c cloister -n '__cloister_command put' -l overwrite -d 'Replace files that are there'
complete -c cloister -n '__cloister_command put' -F
complete -c cloister -n '__cloister_command get; and __cloister_operands 0' -a '(__cloister_files "")'
complete -c cloister -n '__cloister_command get; and not __cloister_operands 0' -F
complete -c cloister -n '__cloister_command watch' -l recursive -d 'With the directories below it'
complete -c cloister -n '__cloister_command diff' -l since -x -d 'Compare with this checkpoint'
complete -c cloister -n '__cloister_command diff' -l patch -d 'Print a patch'
complete -c cloister -n '__cloister_command edit' -l all -d 'Replace every occurrence'
complete -c cloister -n '__cloister_command edit' -l expect -x -d 'The version that is changed'
complete -c cloister -n '__cloister_command edit' -l patch -r -F -d 'Apply a patch'
complete -c cloister -n '__cloister_command edit' -l key -x -d 'Make the change once'
complete -c cloister -n '__cloister_command edit; and __cloister_operands 0' -a '(__cloister_files "")'
complete -c cloister -n '__cloister_command call' -l key -x -d 'Run the call at most once'
complete -c cloister -n '__cloister_command call' -l option -x -a '(__cloister_call_options)' \
    -d 'An option of the call'
complete -c cloister -n '__cloister_command call; and __cloister_operands 0' \
    -a 'read_file write_file list_directory run_command search_files edit_file apply_patch read_output send_input stop_command list_commands'
complete -c cloister -n '__cloister_command call; and not __cloister_operands 0' -a '(__cloister_arguments)'
complete -c cloister -n '__cloister_command exec; or __cloister_command run; or __cloister_command shell' -l env -x \
    -d 'A variable'
complete -c cloister -n '__cloister_command exec' -l stdin -d "Pass on a terminal's input too"
complete -c cloister -n '__cloister_command exec' -l no-stdin -d 'Give it no input'
complete -c cloister -n '__cloister_command exec' -l blocked-list -d 'Refuse what a model is refused'
complete -c cloister -n '__cloister_command exec; and __cloister_operands 0' -a '(__fish_complete_command)'
complete -c cloister -n '__cloister_command exec; and not __cloister_operands 0' -a '(__cloister_files "")'
complete -c cloister -n '__cloister_command run; and __cloister_operands 0' -a '(__fish_complete_command)'
complete -c cloister -n '__cloister_command run; and not __cloister_operands 0' -a '(__cloister_files "")'
