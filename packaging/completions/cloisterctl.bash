# SPDX-License-Identifier: Apache-2.0
# bash completion for cloisterctl(1).
#
# Agents choose the names in the service, so names are only compared and quoted, never expanded.

# _cloisterctl_ask COMMAND MEMBER: prints the names that the service lists, without those that JSON escapes.
_cloisterctl_ask()
{
	timeout 2 cloisterctl ${socket:+"--socket=$socket"} --json "$1" 2>/dev/null |
		sed -n "s/^ *\"$2\": *\"\([^\"\\\\]*\)\",*\$/\1/p" | sort -u
}

# Offers the words on stdin that begin with the word at the cursor.
_cloisterctl_offer()
{
	local word quoted
	while IFS= read -r word; do
		[[ $word == "$cur"* ]] || continue
		printf -v quoted %q "$word"
		COMPREPLY+=("$quoted")
	done
	[[ ${#COMPREPLY[@]} == 1 && ${COMPREPLY[0]} == *[=/] ]] && compopt -o nospace 2>/dev/null
	return 0
}

# Does not use compgen -f, which expands the "$" in a directory's name, even "${a[$(command)]}". Runs in a subshell.
_cloisterctl_files()
{
	local file hidden=
	shopt -u failglob nullglob dotglob
	set +f
	[[ $cur && $cur != */ ]] || hidden='.[!.]*'
	for file in "$cur"* ${hidden:+"$cur"$hidden}; do
		[[ (-e $file || -L $file) && $file != *$'\n'* ]] || continue
		[[ -d $file ]] && file+=/
		printf '%s\n' "$file"
	done
}

_cloisterctl()
{
	local cur=${COMP_WORDS[COMP_CWORD]} i word value= command= operands=0 socket=
	COMPREPLY=()
	for ((i = 1; i < COMP_CWORD; i++)); do
		word=${COMP_WORDS[i]}
		# "=" comes as a word of its own.
		if [[ $word == "=" ]]; then
			[[ $value || ${COMP_WORDS[i - 1]} != --* ]] || value=${COMP_WORDS[i - 1]}
		elif [[ $value ]]; then
			[[ $value == --socket ]] && socket=$word
			value=
		else
			case $word in
			--socket | --tenant | --contains | --format | --workspace | --expires | --name | --keys) value=$word ;;
			-*) ;;
			*)
				if [[ $command ]]; then
					operands=$((operands + 1))
				else
					command=$word
				fi
				;;
			esac
		fi
	done
	[[ $cur == "=" ]] && cur=
	case $value in
	--socket | --keys) _cloisterctl_offer < <(_cloisterctl_files) ;;
	--tenant) _cloisterctl_offer < <(_cloisterctl_ask tenants tenant) ;;
	--format) _cloisterctl_offer < <(printf '%s\n' openmetrics prometheus) ;;
	esac
	[[ $value ]] && return
	if [[ $cur == -* ]]; then
		_cloisterctl_offer < <(printf '%s\n' --socket= --tenant= --json --contains= --format= --verbose --follow --agent-check --ignore-full --moved-to= --workspace= --expires= --name= --keys= --replace --help --version)
		return
	fi
	case $command in
	"" | help)
		((operands == 0)) && _cloisterctl_offer < <(printf '%s\n' status health doctor tenants workspaces commands \
			sessions show kill drain resume selftest reload metrics denials templates template key events top audit help)
		;;
	show | kill)
		((operands == 0)) && _cloisterctl_offer < <(
			_cloisterctl_ask workspaces workspace
			_cloisterctl_ask commands call
		)
		;;
	template)
		if ((operands == 0)); then
			_cloisterctl_offer < <(printf '%s\n' remove import)
		elif ((operands == 1)); then
			_cloisterctl_offer < <(_cloisterctl_ask templates template)
		else
			_cloisterctl_offer < <(_cloisterctl_files)
		fi
		;;
	key) ((operands == 0)) && _cloisterctl_offer < <(printf '%s\n' new list revoke) ;;
	audit)
		if ((operands == 0)); then
			_cloisterctl_offer < <(echo verify)
		else
			_cloisterctl_offer < <(_cloisterctl_files)
		fi
		;;
	esac
	return 0
}

complete -F _cloisterctl cloisterctl
