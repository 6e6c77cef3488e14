# SPDX-License-Identifier: Apache-2.0
# bash completion for cloister(1).
#
# Agents choose the names in a service and in a file system, so names are only compared and quoted, never expanded. compgen
# is not used for them: -W expands its words, and -f and -d the "$" in a directory's name, even "${a[$(command)]}".

# Sets words to the words up to the cursor and joins those that bash split at "=". The last one is at the cursor.
_cloister_words()
{
	local i word
	words=()
	for ((i = 0; i <= COMP_CWORD; i++)); do
		word=${COMP_WORDS[i]}
		if ((i > 1)) && [[ $word == "=" || (${COMP_WORDS[i - 1]} == "=" &&
			! ($word == "" && ${COMP_LINE:0:COMP_POINT} == *[[:blank:]])) ]]; then
			words[-1]+=$word
		else
			words+=("$word")
		fi
	done
	cur=${words[-1]}
}

# _cloister_offer WORD...: offers the words that begin with $cur. After "=" or "/" no space follows.
_cloister_offer()
{
	local word quoted before=${whole%"$cur"} torn=
	# bash replaces only the text after the last "=", unless COMP_WORDBREAKS has no "=".
	[[ $COMP_WORDBREAKS == *=* && $whole == *=* ]] && torn=${whole%"${whole##*=}"}
	for word; do
		[[ $word == "$cur"* ]] || continue
		word=$before$word
		printf -v quoted %q "${word#"$torn"}"
		COMPREPLY+=("$quoted")
	done
	[[ ${#COMPREPLY[@]} == 1 && ${COMPREPLY[0]} == *[=/] ]] && compopt -o nospace 2>/dev/null
	return 0
}

# _cloister_glob START: prints the files whose names begin with START, each followed by a zero byte.
_cloister_glob()
{
	local file hidden=
	shopt -u failglob nullglob dotglob
	set +f
	[[ $1 && $1 != */ ]] || hidden='.[!.]*'
	for file in "$1"* ${hidden:+"$1"$hidden}; do
		[[ -e $file || -L $file ]] && printf '%s\0' "$file"
	done
}

# _cloister_files PREFIX BASE ACTION: offers files (-f) or directories (-d), relative to BASE, after PREFIX.
_cloister_files()
{
	local file found=()
	while IFS= read -r -d '' file; do
		[[ -d $file ]] && file+=/
		[[ $3 == -f || $file == */ ]] && found+=("$1${file#"$2"}")
	done < <(_cloister_glob "$2${cur#"$1"}")
	_cloister_offer "${found[@]}"
}

# Offers directories, and the managed workspaces in use if the caller may use the control socket.
_cloister_workspaces()
{
	local names
	_cloister_files "" "" -d
	mapfile -t names < <(timeout 2 cloisterctl --json workspaces 2>/dev/null |
		sed -n 's/^ *"workspace": *"\([A-Za-z0-9._-]*\)",*$/\1/p')
	_cloister_offer "${names[@]}"
}

_cloister_option_value()
{
	case $cur in
	stream=* | stdin_stream=* | keep_output=* | line_numbers=* | gitignore=* | blocked_list=*)
		_cloister_offer "${cur%%=*}"={true,false}
		;;
	encoding=*) _cloister_offer encoding={utf-8,base64} ;;
	durability=*) _cloister_offer durability={durable,fast} ;;
	reply=*) _cloister_offer reply={observation,message} ;;
	*=*) ;;
	*) _cloister_offer timeout_ms= idle_timeout_ms= stream= stdin= stdin_stream= keep_output= env= \
		line_numbers= encoding= gitignore= path_base64= cwd= durability= reply= \
		max_output= blocked_list= key= key_wait_ms= forget_key= yield_ms= transaction= ;;
	esac
}

# Offers the arguments of the tool $1 except those in $given.
_cloister_arguments()
{
	local argument arguments=() base=${workspace:-.}
	case $cur in
	path=*)
		[[ -d $base ]] && _cloister_files path= "$base/" -f
		return
		;;
	create_dirs=* | recursive=* | background=* | newline=* | eof=*)
		_cloister_offer "${cur%%=*}"={true,false}
		return
		;;
	*=*) return ;;
	esac
	case $1 in
	read_file) arguments=(path= start_line= end_line=) ;;
	write_file) arguments=(path= content= create_dirs= expect=) ;;
	list_directory) arguments=(path= recursive= pattern=) ;;
	run_command) arguments=(command= timeout_ms= background= name=) ;;
	search_files) arguments=(pattern= path= file_pattern= max_results= context= offset= limit=) ;;
	edit_file) arguments=(path= edits= expect=) ;;
	apply_patch) arguments=(patch=) ;;
	read_output) arguments=(name= wait_for= wait_ms= after=) ;;
	send_input) arguments=(name= input= newline= eof=) ;;
	stop_command) arguments=(name=) ;;
	list_commands) arguments=() ;;
	esac
	for argument in "${arguments[@]}"; do
		[[ $given == *" $argument"* ]] || _cloister_offer "$argument"
	done
}

_cloister()
{
	local words cur whole i word command= tool= given= workspace= value= options
	COMPREPLY=()
	_cloister_words
	whole=$cur
	for ((i = 1; i < ${#words[@]} - 1; i++)); do
		word=${words[i]}
		[[ $value == --workspace ]] && workspace=$word
		if [[ $value ]]; then
			value=
		elif [[ $command =~ ^(exec|run)$ && ($word == -- || $word != -*) ]]; then
			tool=$word
			break
		else
			case $word in
			--workspace=*) workspace=${word#*=} ;;
			--workspace | --socket | --readonly-path | --allow-net | --allow-private-net | --tools | --format | --timeout | --key | --expect | --patch | --option | --env | --idle-timeout | --max-size | --max-files | --label | --lease | --at-end | --shown-at | --clear | --state)
				value=$word
				;;
			-*) ;;
			*)
				if [[ ! $command ]]; then
					command=$word
				elif [[ ! $tool ]]; then
					tool=$word
				else
					given+=" ${word%%=*}="
				fi
				;;
			esac
		fi
	done
	if [[ ! $value && ! ($command =~ ^(exec|run)$ && $tool) ]]; then
		case $cur in
		--workspace=* | --socket=* | --readonly-path=* | --allow-net=* | --allow-private-net=* | --tools=* | --format=* | --timeout=* | --key=* | --expect=* | --patch=* | --option=* | --env=* | --idle-timeout=* | --max-size=* | --max-files=* | --label=* | --lease=* | --at-end=* | --shown-at=* | --clear=* | --state=*)
			value=${cur%%=*}
			cur=${cur#*=}
			;;
		esac
	fi
	case $value in
	--workspace) _cloister_workspaces && return ;;
	--socket | --readonly-path | --patch) _cloister_files "" "" -f && return ;;
	--tools) _cloister_offer basic edit patch sessions && return ;;
	--format) _cloister_offer ollama openai mcp && return ;;
	--option) _cloister_option_value && return ;;
	--at-end) _cloister_offer close remove && return ;;
	--clear) _cloister_offer labels lease env && return ;;
	--state) _cloister_offer open closed && return ;;
	--allow-net | --allow-private-net | --timeout | --env | --idle-timeout | --max-size | --max-files | --label | --lease | --shown-at) return ;;
	esac
	[[ $value ]] && return
	if [[ $command =~ ^(exec|run)$ && $tool ]]; then
		if [[ $tool == -- && ${words[-2]} == -- ]]; then
			mapfile -t words < <(compgen -c -- "$cur")
			((${#words[@]})) && _cloister_offer "${words[@]}"
		elif [[ -d ${workspace:-.} ]]; then
			_cloister_files "" "${workspace:-.}/" -f
		fi
		return
	fi
	options=(--workspace= --socket= --private --create --rootfs --readonly-path= --allow-net= --allow-private-net= --preview --json --help --version)
	case $command in
	tools) options+=(--format= --limits) ;;
	call) options+=(--timeout= --key= --option=) ;;
	diff) options+=(--since= --patch) ;;
	watch) options+=(--recursive) ;;
	edit) options+=(--all --expect= --patch= --key=) ;;
	exec) options+=(--timeout= --env= --stdin --no-stdin --blocked-list --) ;;
	run) options+=(--env= --) ;;
	shell) options+=(--env=) ;;
	session) options+=(--name= --env= --stdin --key= --after= --eof --port= --contains= --timeout=) ;;
	put) options+=(--timeout= --idle-timeout= --overwrite) ;;
	export | import) options+=(--timeout= --idle-timeout= --max-size= --max-files=) ;;
	mcp) options+=(--tools= --text --env=) ;;
	harness) options+=(--tools=) ;;
	freeze) options+=(--replace) ;;
	fork) options+=(--label= --lease= --at-end= --env= --shown-at=) ;;
	workspace) options+=(--label= --lease= --at-end= --env= --shown-at= --clear= --state=) ;;
	get) options+=(--timeout= --idle-timeout= --max-size= --max-files= --any-links) ;;
	esac
	if [[ $cur == -* ]]; then
		_cloister_offer "${options[@]}"
	elif [[ ! $command || ($command == help && ! $tool) ]]; then
		_cloister_offer tools call edit exec run shell put get export import workspace checkpoint checkpoints diff rollback freeze fork template session forward watch mcp gate harness help
	elif [[ $command == harness && ! $tool ]]; then
		_cloister_offer claude codex opencode gemini cline zed
	elif [[ $command == session && ! $tool ]]; then
		_cloister_offer start list read attach write wait end
	elif [[ $command == template && ! $tool ]]; then
		_cloister_offer list remove
	elif [[ $command == workspace && ! $tool ]]; then
		_cloister_offer list info create update remove
	elif [[ $command == call && ! $tool ]]; then
		_cloister_offer read_file write_file list_directory run_command search_files edit_file apply_patch read_output send_input stop_command list_commands
	elif [[ $command == call ]]; then
		_cloister_arguments "$tool"
	elif [[ ($command == put && ! $tool) || ($command == get && $tool) ]]; then
		_cloister_files "" "" -f
	elif [[ ($command == put || $command == get || ($command == edit && ! $tool)) && -d ${workspace:-.} ]]; then
		_cloister_files "" "${workspace:-.}/" -f
	fi
}

complete -F _cloister cloister
