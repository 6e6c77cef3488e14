# SPDX-License-Identifier: Apache-2.0
# bash completion for cloisterd(8).

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
	--config | --agent-socket | --control-socket)
		compopt -o filenames 2>/dev/null
		mapfile -t COMPREPLY < <(compgen -f -- "$cur")
		;;
	--state-dir)
		compopt -o filenames 2>/dev/null
		mapfile -t COMPREPLY < <(compgen -d -- "$cur")
		;;
	--user) mapfile -t COMPREPLY < <(compgen -u -- "$cur") ;;
	*)
		mapfile -t COMPREPLY < <(compgen -W "--config= --check --agent-socket= --control-socket= --state-dir= \
			--user= --connection-fd=3 --help --version" -- "$cur")
		[[ ${#COMPREPLY[@]} == 1 && ${COMPREPLY[0]} == *= ]] && compopt -o nospace 2>/dev/null
		;;
	esac
	return 0
}

complete -F _cloisterd cloisterd
