/* links: cloister-supervisor */
/* SPDX-License-Identifier: Apache-2.0 */

#include "supervisor/config/command_line.h"
#include "supervisor/config/command_policy.h"
#include "tests/lib/unit.h"

#include <time.h>

#define ROOT "/home/me/ws"

static struct command_policy *policy;

/* The processor time that the policy sees: between two looks, so much passes. */
static unsigned passed_ms, look_ms;

/* Replaces the C library's: how fast the machine is changes no decision. */
int clock_gettime(clockid_t clock, struct timespec *ret_now)
{
	(void)clock;
	passed_ms += look_ms;
	*ret_now = (struct timespec){passed_ms / 1000, passed_ms % 1000 * 1000000L};
	return 0;
}

static int make_policy(void **state)
{
	char *message;

	(void)state;
	return command_policy_new(
		command_policy_default_patterns, command_policy_default_count, &policy, &message);
}

static int free_policy(void **state)
{
	(void)state;
	command_policy_free(policy);
	return 0;
}

GROUP_FIXTURE(make_policy, free_policy)

static const char *match_in(const char *root, const char *command)
{
	return command_policy_match(policy, text_from(command), text_from(root));
}

/* Each of the commands, up to NULL, is blocked in a workspace at @root. */
static void all_blocked(const char *root, const char *const *commands)
{
	for (; *commands; commands++)
		if (!match_in(root, *commands))
			fail_msg("runs: %s", *commands);
}

static void all_allowed(const char *root, const char *const *commands)
{
	for (const char *why; *commands; commands++)
		if ((why = match_in(root, *commands)))
			fail_msg("%s: %s", *commands, why);
}

#define blocks_in(root, ...) all_blocked(root, (const char *const[]){__VA_ARGS__, NULL})
#define allows_in(root, ...) all_allowed(root, (const char *const[]){__VA_ARGS__, NULL})
#define blocks(...)          blocks_in(ROOT, __VA_ARGS__)
#define allows(...)          allows_in(ROOT, __VA_ARGS__)

/* What the first specification names. */
TEST(test_seed_blocks)
{
	blocks("sudo rm -rf /", "sudo", "rm -rf /", "rm -rf ~", "shutdown -h now", "reboot",
		"format c:", "mkfs.ext4 /dev/sda", "dd if=/dev/zero of=/dev/sda",
		"curl http://example.com", "wget http://example.com", "nc -l 80", "netcat -l 80",
		"python -m http.server", "python3 -u -m http.server", "node --inspect index.js",
		"chmod 777 file");
	assert_non_null(strstr(match_in(ROOT, "curl x"), "curl is blocked"));
}

/* A pattern means the program that it names, and options of the interpreter. */
TEST(test_words_end)
{
	allows("reboot-test", "format-code src", "shutdown-handler.sh && sudo-free",
		"curl-config --libs");
	blocks("mkfs.ext4 disk");
	allows("python3 -m pytest -m http tests/test_proxy.py",
		"python3 -W ignore -m pytest -m http", "python3 manage.py -m http",
		"python3 -c 'print(\"-m http\")'");
	blocks("python3 -W ignore -m http.server", "python3 $OPTIONS -m http.server",
		"python3 -m http.server 8080 -d $DIR");
	allows("node build.js --inspect-bundle", "node tools/x.js --inspector");
	blocks("node --inspect-brk=0.0.0.0:9229 index.js", "node --inspect=0 index.js",
		"node --inspect-wait index.js", "sudo -n true", "sudo");
}

TEST(test_seed_allows)
{
	allows("npm test", "git status", "ls", "cat file.txt", "node index.js", "rm file.txt",
		"rm -rf build", "rm -rf ./build ../x", "python3 setup.py -m x", "chmod 755 file",
		"", "   \n\n");
}

TEST(test_every_simple_command)
{
	blocks("ls; sudo x", "ls && sudo x", "ls || sudo x", "ls|sudo x", "ls & sudo x",
		"ls |& sudo x", "ls\nsudo x", "  \tsudo x", "sudo;ls", "echo $(sudo x)",
		"echo $(ls $(sudo x))", "echo `sudo x`", "echo \"a $(sudo x) b\"",
		"echo \"a `sudo x` b\"", "A=$(sudo x)", "A=`sudo x` ls", "diff <(sudo x) y",
		"tee >(sudo x)", "(sudo x)", "( ls; (sudo x) )", "{ sudo x; }",
		"if true; then sudo x; fi", "if sudo x; then :; fi",
		"if false; then :; elif sudo x; then :; else sudo y; fi",
		"for i in 1 2; do sudo x; done", "coproc sudo x", "cat <(sudo x)",
		"while ! sudo x; do :; done", "case x in a) sudo x;; esac", "f() { sudo x; }; f",
		"echo $((1 + $(sudo x)))", "echo $((1)) $(sudo x)");
}

TEST(test_behind_other_programs)
{
	blocks("A=1 sudo x", "A=1 B='2 3' C+=4 sudo x", "env sudo x", "env -i A=1 sudo x",
		"env -u HOME -- sudo x", "command sudo x", "command -p sudo x", "exec sudo x",
		"exec -a name sudo x", "nohup sudo x &", "time sudo x", "time -p sudo x",
		"nice sudo x", "nice -n 5 sudo x", "nice -5 sudo x", "timeout 5 sudo x",
		"timeout -k 1 --signal=KILL 5s sudo x", "ls | xargs sudo",
		"ls | xargs -0 -n1 -I {} sudo {}", "nohup nice env A=1 timeout 5 sudo x",
		"sh -c 'sudo x'", "bash -lc \"cd x && sudo x\"", "bash -euo pipefail -c 'sudo x'",
		"/bin/sh -c \"sh -c 'sudo x'\"", "eval sudo x", "eval 'ls; sudo x'",
		"/usr/bin/sudo x", "//usr//bin//sudo x", "/sbin/reboot",
		"/usr/bin/env /usr/bin/sudo x");
	allows("command -v curl", "timeout 5 grep curl file", "nice -n 5 make format",
		"xargs grep wget", "sh script.sh sudo", "sh script.sh -c sudo", "./format.sh",
		"scripts/format.sh", "/usr/binary/curl");
}

TEST(test_quoting)
{
	blocks("\"sudo\" x", "'sudo' x", "su\\do x", "s'u'\"d\"o x", "su\\\ndo x",
		"rm \"-rf\" '/'");
	allows("echo \"sudo\"", "echo 'a; sudo x'", "echo \"a; sudo x\"", "echo '$(sudo x)'",
		"echo \"\\$(sudo x)\"", "echo \"it's; sudo x\"", "echo a\\;sudo",
		"git commit -m 'never rm -rf / here'", "git commit -m \"use curl\n\nsudo is gone\"",
		"\"sudo x\"", "echo 'unterminated; sudo x", "echo \"unterminated; sudo x");
	blocks("echo \"$(echo ')' ; sudo x)\"");
}

TEST(test_comments)
{
	allows("ls # ; sudo x", "# sudo x");
	blocks("# c\nsudo x", "echo a#b; sudo x", "echo $#; sudo x");
}

TEST(test_redirections)
{
	blocks(">out sudo x", "2>&1 sudo x", "2> /dev/null sudo x", "sudo>out",
		"npm test 2>&1&sudo x", "<in >>out sudo x", "> $(sudo x)");
	allows("echo x > sudo", "npm test > curl 2>&1", "npm test 2>&1 | tail", "make &> log",
		"cat <<< sudo");
}

TEST(test_heredocs)
{
	allows("cat > a.sh <<EOF\nsudo x\ncurl y\nEOF\n", "cat > a.sh <<'EOF'\nsudo x\nEOF",
		"cat <<-\"E F\"\n\tsudo x\n\tE F\nls", "cat <<A <<B\nsudo\nA\nsudo\nB\n",
		"cat <<EOF\nsudo x", "echo $(cat <<EOF\nsudo x\nEOF\n)",
		"cat <<EOF\nsudo x\n EOF\nsudo y\nEOF x\nsudo z");
	blocks("cat <<EOF\nx\nEOF\nsudo x", "cat <<EOF | sudo x\nEOF", "cat <<EOF; sudo x\nEOF",
		"cat <<E\\OF\nx\nEOF\nsudo x", "echo $((1 << 2))\nsudo x\n2");
}

TEST(test_not_commands)
{
	allows("echo $((nc + 1)) $(( (dd ) * 2 ))",
		"case $1 in\n  format) ls;;\n  curl) ls;;\nesac",
		"for curl in wget nc; do echo x; done", "curl_opts=1 ls", "echo sudo curl wget",
		"echo\tsudo", "which curl", "man 1 sudo");
}

TEST(test_rm_inside_root)
{
	allows("rm -rf /home/me/ws/build", "rm -rf /home/me/ws/build/",
		"rm -rf //home/./me//ws/build/* /home/me/ws/*.o",
		"rm -rf '/home/me/ws/my dir' build", "cd x && rm -fr /home/me/ws/~x",
		"rm -rf /home/me/ws", "rm -rf /home/me/ws/", "rm -rf /home/me/ws/.",
		"rm -rf /home/me/ws/*", "rm -rf /tmp", "rm -rf /tmp/*",
		"rm -rf //tmp//build build /home/me/ws/build");
	blocks("rm -rf /tmp/../etc", "rm -rf /tmp/x/..", "rm -rf /tmp/.*",
		"rm -rf /tmp/a/.?/.?/etc", "rm -rf /tmp/{.,}./etc", "rm -rf /tmp/$X",
		"rm -rf /tmp/x/$(echo ..)", "rm -rf /tmp/x/`echo ..`/y", "rm -rf /tmp /etc",
		"rm -rf /tmp*", "rm -rf /tmpx", "rm -rf /home/me/ws/build/$X",
		"rm -rf /home/me/ws/.*", "rm -rf /home/me/ws/{a,b}", "rm -rf /home/me/ws/$X",
		"rm -rf /home/me/ws/$(echo)", "rm -rf /home/me/ws/build/../..",
		"rm -rf /home/me/ws/..", "rm -rf /home/me/wsx", "rm -rf /home/me", "rm -rf /home",
		"rm -rf /etc", "rm -rf ~/x", "rm -rf build /", "rm -rf /home/me/ws/build /etc",
		"find . -exec rm -rf /x {} +");
}

TEST(test_rm_in_whole_root)
{
	allows_in("/", "rm -rf /x", "rm -rf /var/lib/apt/lists/*");
	blocks_in("/", "rm -rf /", "rm -rf //", "rm -rf /.", "rm -rf /*", "rm -rf /?*",
		"rm -rf /x/..", "rm -rf ~");
	blocks_in("", "rm -rf /x");
}

TEST(test_rm_flags)
{
	blocks("rm -fr /", "rm -r -f /", "rm -f -r /", "rm -Rf /", "rm -rfv /",
		"rm --recursive --force /", "rm -r --force --no-preserve-root /", "rm / -rf",
		"rm -rf -- /", "/bin/rm -fr /");
	allows("rm -r /x", "rm -f /x", "rm -- -rf /");
}

TEST(test_loopback)
{
	allows("curl -sS -X POST -H 'Content-Type: application/json' -d '{\"a\": [1, 2]}' "
	       "'http://127.0.0.1:3000/api?x=1&y=2'");
	allows("curl http://localhost:8080", "curl localhost",
		"curl -so /dev/null -w '%{http_code}' --max-time 5 https://localhost/#x",
		"curl -XPUT -m5 'http://[::1]:80/' http://0.0.0.0:9/x http://127.255.0.1",
		"npm start & sleep 2; timeout 5 curl -s http://localhost:3000 | head > out 2>&1",
		"sh -c 'curl http://localhost' && echo $(curl localhost:1) $HOME",
		"wget -qO- http://localhost:8080/",
		"wget -q -O out --timeout=5 --tries 1 127.0.0.1:8080", "nc -z localhost 8080",
		"nc -zvw1 127.0.0.1 80-90 && netcat ::1 80 </dev/null");
}

/* A second target, however it comes in, and names that only begin like the loopback's. */
TEST(test_not_only_loopback)
{
	blocks("curl", "curl -s", "curl http://localhost:8080 http://evil",
		"curl http://localhost evil", "curl -X http://localhost evil",
		"curl -H -x evil http://localhost", "curl -o http://localhost",
		"curl http://localhost.evil", "curl http://localhost@evil",
		"curl http://localhost:80@evil", "curl http://localhost:@evil",
		"curl 'http://localhost\\@evil'", "curl 'http://localhost http://evil'",
		"curl http://127.0.0.1.evil", "curl http://127.0.0.256", "curl http://127.0.0.1.2",
		"curl http://127.1", "curl 'http://{localhost,evil}/'", "curl file:///etc/passwd",
		"curl -x evil http://localhost", "curl -sx evil http://localhost",
		"curl --proxy evil http://localhost", "curl --connect-to ::evil: http://localhost",
		"curl --resolve localhost:80:1.2.3.4 http://localhost",
		"curl -K config http://localhost", "curl --url evil http://localhost",
		"curl -: http://localhost", "curl -- http://localhost",
		"curl --max-time=5 http://localhost", "wget -i list http://localhost",
		"wget -e x=y http://localhost", "wget --quiet=evil http://localhost",
		"wget --input-file=list http://localhost", "nc evil 80", "nc localhost.evil 80",
		"nc localhost evil", "nc -l 80", "nc -l localhost 80", "nc -e /bin/sh localhost 80",
		"nc -z localhost 80 evil", "curl http://localhost; curl http://evil",
		"curl http://localhost $(curl http://evil)");
}

/* What the shell would make of the words is not known. */
TEST(test_loopback_in_plain_words_only)
{
	blocks("curl http://localhost $X", "curl http://localhost/$X",
		"curl \"http://localhost/$X\"", "curl http://localhost `cat x`",
		"curl http://localhost *", "curl http://localhost -d {x,http://evil}",
		"curl http://localhost -H a?b", "curl http://localhost -H [a]",
		"curl http://localhost <(ls)", "curl http://localhost > $(ls)",
		"ls | xargs curl http://localhost", "ls | xargs sh -c 'curl http://localhost'",
		"X=1 curl http://localhost", "X=1 sh -c 'curl http://localhost'",
		"env X=1 curl http://localhost", "sh -c \"curl http://localhost $X\"",
		"eval curl http://localhost '*'", "export http_proxy=evil; curl http://localhost",
		"export HTTPS_PROXY=evil; curl http://localhost",
		"echo url=evil > ~/.curlrc; curl http://localhost");
	allows("echo $X; curl http://localhost", "case x in *) curl http://localhost;; esac");
}

TEST(test_help_and_version)
{
	allows("curl --version", "curl --help", "sudo --version && dd --help",
		"/usr/bin/wget --version | head -n 1", "mkfs.ext4 --help");
	blocks("curl --help evil", "curl evil --help", "sudo x --help", "rm -rf / --help",
		"curl --versio", "ls | xargs curl --help", "curl --help $X");
}

/* Every refusal says in words what to do, and shows no expression. */
TEST(test_words_of_refusals)
{
	static const char *const commands[] = {"sudo x", "rm -rf /", "shutdown", "reboot",
		"format c:", "mkfs x", "dd x", "chmod 777 x", "curl x", "wget x", "nc x",
		"netcat x", "python -m http", "node --inspect"};

	assert_int_equal(ARRAY_SIZE(commands), command_policy_default_count);
	for (size_t i = 0; i < ARRAY_SIZE(commands); i++) {
		const char *why = match_in(ROOT, commands[i]);

		assert_non_null(why);
		assert_non_null(strstr(why, " is blocked"));
		assert_non_null(strchr(why, ';'));
		assert_null(strpbrk(why, "\\^$*|"));
		for (size_t other = 0; other < i; other++)
			assert_string_not_equal(why, match_in(ROOT, commands[other]));
	}
	assert_non_null(strstr(match_in(ROOT, "node --inspect"), "node --inspect"));
}

TEST(test_nesting)
{
	char line[16384] = "";
	size_t len = 0;

	for (int i = 0; i < LIMIT_COMMAND_NESTING; i++)
		len += (size_t)sprintf(line + len, "echo $(");
	strcpy(line + len, "ls");
	allows(line);
	strcpy(line + len, "sudo");
	assert_non_null(strstr(match_in(ROOT, line), "sudo is blocked"));
	strcpy(line + len, "$(ls");
	assert_non_null(strstr(match_in(ROOT, line), "nested too deeply"));
	for (len = 0; len < 1000;)
		len += (size_t)sprintf(line + len, "echo $(ls) `ls`;");
	allows(line);
	for (len = 0; len < 1000;)
		len += (size_t)sprintf(line + len, "nice ");
	assert_non_null(strstr(match_in(ROOT, line), "nested too deeply"));
}

/* Long lines that could take quadratic time: with it the test does not end in time. */
TEST(test_long_lines)
{
	static const char *const pieces[] = {"a ", "a;", "''", "\"\" ", "$(a)", "`a`", "rm -rf /x ",
		"<<'' ", "<<A ", "\n", "$((", "(", ")", "python -m ", "a=1 ", "env ", "\\", "2>a ",
		"((", "\"$(\"", "rm -rf ", "sh -c 'a' ;", "'\"", "/home/me/ws/a "};
	_cleanup_free_ char *line = malloc(LIMIT_COMMAND_BYTES + 1);

	for (size_t i = 0; i < ARRAY_SIZE(pieces); i++) {
		const char *prefix = i % 2 == 0 ? "" : "rm -rf ";
		size_t len = (size_t)sprintf(line, "%s", prefix);

		while (len + strlen(pieces[i]) <= LIMIT_COMMAND_BYTES)
			len += (size_t)sprintf(line + len, "%s", pieces[i]);
		command_policy_match(policy, (struct text){line, len}, text_from(ROOT));
	}
}

/* The step limit of a pattern is enough for the default patterns on any line. */
TEST(test_long_script)
{
	_cleanup_free_ char *line = malloc(LIMIT_COMMAND_BYTES + 1);
	size_t len = (size_t)sprintf(line, "python3 -c ");

	while (len + 4 <= LIMIT_COMMAND_BYTES)
		len += (size_t)sprintf(line + len, "-m p");
	assert_null(command_policy_match(policy, (struct text){line, len}, text_from(ROOT)));
}

/* Each command of the line takes a pattern far less than its steps, all together too long. */
TEST(test_many_dear_commands)
{
	static const char *const patterns[] = {"^(a|aa)+$"};
	_cleanup_free_ char *line = malloc(LIMIT_COMMAND_BYTES + 1);
	struct command_policy *own = NULL;
	char *message = NULL;
	size_t len = 0;

	assert_int_equal(command_policy_new(patterns, ARRAY_SIZE(patterns), &own, &message), 0);
	while (len + 10 <= LIMIT_COMMAND_BYTES)
		len += (size_t)sprintf(line + len, "aaaaaaaa!;");
	look_ms = LIMIT_BLOCKED_LINE_MS / 4;
	assert_null(command_policy_match(own, (struct text){line, 100}, TEXT_LITERAL(ROOT)));
	assert_non_null(
		strstr(command_policy_match(own, (struct text){line, len}, TEXT_LITERAL(ROOT)),
			"takes too long"));
	look_ms = 0;
	command_policy_free(own);
}

TEST(test_own_patterns)
{
	static const char *const patterns[] = {"^env\\b", "^(a+)+$", "^git\\s+push\\s+\\S+$"};
	struct command_policy *own = NULL;
	char *message = NULL;
	char line[64] = "";

	assert_int_equal(command_policy_new(patterns, ARRAY_SIZE(patterns), &own, &message), 0);
	assert_null(message);
	assert_null(command_policy_match(own, TEXT_LITERAL("sudo x"), TEXT_LITERAL(ROOT)));
	assert_ptr_not_equal(
		command_policy_match(own, TEXT_LITERAL("env A=1 ls"), TEXT_LITERAL(ROOT)), NULL);
	assert_ptr_not_equal(
		command_policy_match(own, TEXT_LITERAL("git push 'a b'"), TEXT_LITERAL(ROOT)),
		NULL);
	assert_null(command_policy_match(own, TEXT_LITERAL("git push a b"), TEXT_LITERAL(ROOT)));
	/* The message has the pattern's number; an own pattern leaves no command alone. */
	assert_non_null(
		strstr(command_policy_match(own, TEXT_LITERAL("env --help"), TEXT_LITERAL(ROOT)),
			"number 1 of"));
	/* A line that cannot be decided counts as a match. */
	memset(line, 'a', 40);
	line[40] = '!';
	assert_non_null(strstr(
		command_policy_match(own, text_from(line), TEXT_LITERAL(ROOT)), "number 2 of"));
	command_policy_free(own);

	assert_int_equal(command_policy_new(NULL, 0, &own, &message), 0);
	assert_null(command_policy_match(own, TEXT_LITERAL("sudo"), TEXT_LITERAL(ROOT)));
	command_policy_free(own);
	command_policy_free(NULL);
}

TEST(test_bad_pattern)
{
	static const char *const patterns[] = {"^a", "b("};
	struct command_policy *own = NULL;
	char *message = NULL;

	assert_int_equal(command_policy_new(patterns, 2, &own, &message), -EINVAL);
	assert_null(own);
	assert_non_null(strstr(message, "\"b(\""));
	free(message);
}

struct collected {
	char data[512];
	size_t len;
};

static int collect(struct text words, bool plain, void *userdata)
{
	struct collected *collected = userdata;

	(void)plain;
	while (words.len > 0)
		collected->len += (size_t)sprintf(
			collected->data + collected->len, "[%s]", command_line_word(&words));
	collected->data[collected->len++] = ';';
	collected->data[collected->len] = '\0';
	return 0;
}

TEST(test_words)
{
	static const struct {
		const char *line;
		const char *words;
	} cases[] = {
		{"a 'b c' \"d\\\"e\" f\\ g ''", "[a][b c][d\"e][f g][];"},
		{"a $(b c)d `e` \"$(f)\" $X${Y}", "[b][c];[e];[f];[a][$d][$][$][$X${Y}];"},
		{"a>b 2>&1 c<d<<E 3 x4>y\nE\nz", "[a][c][3][x4];[z];"},
		{"if a; then b; fi", "[a];[b];[fi];"},
		{"A=1 /usr/bin/env B=2 ./c D=3", "[env][B=2][./c][D=3];[./c][D=3];"},
		{"a \"\\x\\\ny\" $((1+(2)))z", "[a][\\xy][$z];"},
		{"a\\", "[a];"},
		{"a (b)", "[a];[b];"},
	};

	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		struct collected collected = {0};

		assert_int_equal(
			command_line_each(text_from(cases[i].line), collect, &collected), 0);
		assert_string_equal(collected.data, cases[i].words);
	}
}

/* Which patterns are matched depends on a command's first byte; what is blocked does not. */
TEST(test_beginnings)
{
	static const struct {
		const char *pattern, *blocked, *allowed;
	} rows[] = {
		{"^sudo\\b", "sudo x", "udo"},
		{"(?i)^SUDO", "sUdo", "xsudo"},
		{"(?:(?i)rm) -r", "echo RM -r", "echo r"},
		{"^(a|b)$", "b", "c"},
		{"^(?!git)", "rm", "git"},
		{"^(?=s).do", "sdo", "ado"},
		{"\\bx$", "a x", "a xy"},
		{"^a?b", "b", "cb"},
		{"^.b", "ab", "ac"},
		{"^[^a-y]", "z", "b"},
		{"(?m)^b", "b", "a"},
		{"^(?:ab|)c", "c", "b"},
	};

	for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
		struct command_policy *own;
		char *message;

		assert_int_equal(command_policy_new(&rows[i].pattern, 1, &own, &message), 0);
		if (!command_policy_match(own, text_from(rows[i].blocked), text_from(ROOT)))
			fail_msg("runs: %s", rows[i].blocked);
		if (command_policy_match(own, text_from(rows[i].allowed), text_from(ROOT)))
			fail_msg("does not run: %s", rows[i].allowed);
		command_policy_free(own);
	}
}
