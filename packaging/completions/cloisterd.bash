# SPDX-License-Identifier: Apache-2.0
# bash completion for cloisterd(8).

# _cloisterd_files ACTION: offers files (-f) or directories (-d). Uses neither compgen nor bash's "filenames" option:
# both expand the "$" in a directory's name, even "${a[$(command)]}".
_cloisterd_files()
{
	local file quoted
	while IFS= read -r -d '' file; do
		[[ -d $file ]] && file+=/
		[[ $1 == -f || $file == */ ]] || continue
		printf -v quoted %q "$file"
		COMPREPLY+=("$quoted")
	done < <(_cloisterd_glob "$cur")
	[[ ${#COMPREPLY[@]} == 1 && ${COMPREPLY[0]} == */ ]] && compopt -o nospace 2>/dev/null
	return 0
}

# _cloisterd_glob START: prints the files whose names begin with START, each followed by a zero byte.
_cloisterd_glob()
{
	local file hidden=
	shopt -u failglob nullglob dotglob
	set +f
	[[ $1 && $1 != */ ]] || hidden='.[!.]*'
	for file in "$1"* ${hidden:+"$1"$hidden}; do
		[[ -e $file || -L $file ]] && printf '%s\0' "$file"
	done
}

_cloisterd()
{
	local cur=${COMP_WORDS[COMP_CWORD]} previous=${COMP_WORDS[COMP_CWORD - 1]}
	COMPREPLY=()
	if [[ $cur == "=" ]]; then
		cur=
	elif [[ $previous == "=" ]]; then
		previous=${COMP_WORDS[COMP_CWORD - 2]}
	fi
	case $previous in
	--config | --agent-socket | --control-socket | --readonly-path) _cloisterd_files -f ;;
	--state-dir) _cloisterd_files -d ;;
	--user) mapfile -t COMPREPLY < <(compgen -u -- "$cur") ;;
	*)
		mapfile -t COMPREPLY < <(compgen -W "--config= --check --doctor --agent-socket= --control-socket= --state-dir= \
			--take-over --if-replaced --detach --user= --connection-fd=3 --only-root= --readonly-path= --allow-net= --allow-private-net= --tools= --env= --spare-cells= --help --version" -- "$cur")
		[[ ${#COMPREPLY[@]} == 1 && ${COMPREPLY[0]} == *= ]] && compopt -o nospace 2>/dev/null
		;;
	esac
	return 0
}

complete -F _cloisterd cloisterd
