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

static void blocks_in(const char *root, const char *command)
{
	if (!match_in(root, command))
		fail_msg("runs: %s", command);
}

static void allows_in(const char *root, const char *command)
{
	const char *why = match_in(root, command);

	if (why)
		fail_msg("%s: %s", command, why);
}

#define blocks(command) blocks_in(ROOT, command)
#define allows(command) allows_in(ROOT, command)

/* The lists of plan 40-01, task 2. */
TEST(test_seed_blocks)
{
	blocks("sudo rm -rf /");
	blocks("sudo");
	blocks("rm -rf /");
	blocks("rm -rf ~");
	blocks("shutdown -h now");
	blocks("reboot");
	blocks("format c:");
	blocks("mkfs.ext4 /dev/sda");
	blocks("dd if=/dev/zero of=/dev/sda");
	blocks("curl http://example.com");
	blocks("wget http://example.com");
	blocks("nc -l 80");
	blocks("netcat -l 80");
	blocks("python -m http.server");
	blocks("python3 -u -m http.server");
	blocks("node --inspect index.js");
	blocks("chmod 777 file");
	assert_non_null(strstr(match_in(ROOT, "curl x"), "curl is blocked"));
}

/* A pattern means the program that it names, and options of the interpreter. */
TEST(test_words_end)
{
	allows("reboot-test");
	allows("format-code src");
	allows("shutdown-handler.sh && sudo-free");
	allows("curl-config --libs");
	blocks("mkfs.ext4 disk");
	allows("python3 -m pytest -m http tests/test_proxy.py");
	allows("python3 -W ignore -m pytest -m http");
	allows("python3 manage.py -m http");
	allows("python3 -c 'print(\"-m http\")'");
	blocks("python3 -W ignore -m http.server");
	blocks("python3 $OPTIONS -m http.server");
	blocks("python3 -m http.server 8080 -d $DIR");
	allows("node build.js --inspect-bundle");
	allows("node tools/x.js --inspector");
	blocks("node --inspect-brk=0.0.0.0:9229 index.js");
	blocks("node --inspect=0 index.js");
	blocks("node --inspect-wait index.js");
	blocks("sudo -n true");
	blocks("sudo");
}

TEST(test_seed_allows)
{
	allows("npm test");
	allows("git status");
	allows("ls");
	allows("cat file.txt");
	allows("node index.js");
	allows("rm file.txt");
	allows("rm -rf build");
	allows("rm -rf ./build ../x");
	allows("python3 setup.py -m x");
	allows("chmod 755 file");
	allows("");
	allows("   \n\n");
}

TEST(test_every_simple_command)
{
	blocks("ls; sudo x");
	blocks("ls && sudo x");
	blocks("ls || sudo x");
	blocks("ls|sudo x");
	blocks("ls & sudo x");
	blocks("ls |& sudo x");
	blocks("ls\nsudo x");
	blocks("  \tsudo x");
	blocks("sudo;ls");
	blocks("echo $(sudo x)");
	blocks("echo $(ls $(sudo x))");
	blocks("echo `sudo x`");
	blocks("echo \"a $(sudo x) b\"");
	blocks("echo \"a `sudo x` b\"");
	blocks("A=$(sudo x)");
	blocks("A=`sudo x` ls");
	blocks("diff <(sudo x) y");
	blocks("tee >(sudo x)");
	blocks("(sudo x)");
	blocks("( ls; (sudo x) )");
	blocks("{ sudo x; }");
	blocks("if true; then sudo x; fi");
	blocks("if sudo x; then :; fi");
	blocks("if false; then :; elif sudo x; then :; else sudo y; fi");
	blocks("for i in 1 2; do sudo x; done");
	blocks("coproc sudo x");
	blocks("cat <(sudo x)");
	blocks("while ! sudo x; do :; done");
	blocks("case x in a) sudo x;; esac");
	blocks("f() { sudo x; }; f");
	blocks("echo $((1 + $(sudo x)))");
	blocks("echo $((1)) $(sudo x)");
}

TEST(test_behind_other_programs)
{
	blocks("A=1 sudo x");
	blocks("A=1 B='2 3' C+=4 sudo x");
	blocks("env sudo x");
	blocks("env -i A=1 sudo x");
	blocks("env -u HOME -- sudo x");
	blocks("command sudo x");
	blocks("command -p sudo x");
	blocks("exec sudo x");
	blocks("exec -a name sudo x");
	blocks("nohup sudo x &");
	blocks("time sudo x");
	blocks("time -p sudo x");
	blocks("nice sudo x");
	blocks("nice -n 5 sudo x");
	blocks("nice -5 sudo x");
	blocks("timeout 5 sudo x");
	blocks("timeout -k 1 --signal=KILL 5s sudo x");
	blocks("ls | xargs sudo");
	blocks("ls | xargs -0 -n1 -I {} sudo {}");
	blocks("nohup nice env A=1 timeout 5 sudo x");
	blocks("sh -c 'sudo x'");
	blocks("bash -lc \"cd x && sudo x\"");
	blocks("bash -euo pipefail -c 'sudo x'");
	blocks("/bin/sh -c \"sh -c 'sudo x'\"");
	blocks("eval sudo x");
	blocks("eval 'ls; sudo x'");
	blocks("/usr/bin/sudo x");
	blocks("//usr//bin//sudo x");
	blocks("/sbin/reboot");
	blocks("/usr/bin/env /usr/bin/sudo x");
	allows("command -v curl");
	allows("timeout 5 grep curl file");
	allows("nice -n 5 make format");
	allows("xargs grep wget");
	allows("sh script.sh sudo");
	allows("sh script.sh -c sudo");
	allows("./format.sh");
	allows("scripts/format.sh");
	allows("/usr/binary/curl");
}

TEST(test_quoting)
{
	blocks("\"sudo\" x");
	blocks("'sudo' x");
	blocks("su\\do x");
	blocks("s'u'\"d\"o x");
	blocks("su\\\ndo x");
	blocks("rm \"-rf\" '/'");
	allows("echo \"sudo\"");
	allows("echo 'a; sudo x'");
	allows("echo \"a; sudo x\"");
	allows("echo '$(sudo x)'");
	allows("echo \"\\$(sudo x)\"");
	allows("echo \"it's; sudo x\"");
	allows("echo a\\;sudo");
	allows("git commit -m 'never rm -rf / here'");
	allows("git commit -m \"use curl\n\nsudo is gone\"");
	allows("\"sudo x\"");
	allows("echo 'unterminated; sudo x");
	allows("echo \"unterminated; sudo x");
	blocks("echo \"$(echo ')' ; sudo x)\"");
}

TEST(test_comments)
{
	allows("ls # ; sudo x");
	allows("# sudo x");
	blocks("# c\nsudo x");
	blocks("echo a#b; sudo x");
	blocks("echo $#; sudo x");
}

TEST(test_redirections)
{
	blocks(">out sudo x");
	blocks("2>&1 sudo x");
	blocks("2> /dev/null sudo x");
	blocks("sudo>out");
	blocks("npm test 2>&1&sudo x");
	blocks("<in >>out sudo x");
	blocks("> $(sudo x)");
	allows("echo x > sudo");
	allows("npm test > curl 2>&1");
	allows("npm test 2>&1 | tail");
	allows("make &> log");
	allows("cat <<< sudo");
}

TEST(test_heredocs)
{
	allows("cat > a.sh <<EOF\nsudo x\ncurl y\nEOF\n");
	allows("cat > a.sh <<'EOF'\nsudo x\nEOF");
	allows("cat <<-\"E F\"\n\tsudo x\n\tE F\nls");
	allows("cat <<A <<B\nsudo\nA\nsudo\nB\n");
	allows("cat <<EOF\nsudo x");
	allows("echo $(cat <<EOF\nsudo x\nEOF\n)");
	allows("cat <<EOF\nsudo x\n EOF\nsudo y\nEOF x\nsudo z");
	blocks("cat <<EOF\nx\nEOF\nsudo x");
	blocks("cat <<EOF | sudo x\nEOF");
	blocks("cat <<EOF; sudo x\nEOF");
	blocks("cat <<E\\OF\nx\nEOF\nsudo x");
	blocks("echo $((1 << 2))\nsudo x\n2");
}

TEST(test_not_commands)
{
	allows("echo $((nc + 1)) $(( (dd ) * 2 ))");
	allows("case $1 in\n  format) ls;;\n  curl) ls;;\nesac");
	allows("for curl in wget nc; do echo x; done");
	allows("curl_opts=1 ls");
	allows("echo sudo curl wget");
	allows("echo\tsudo");
	allows("which curl");
	allows("man 1 sudo");
}

TEST(test_rm_inside_root)
{
	allows("rm -rf /home/me/ws/build");
	allows("rm -rf /home/me/ws/build/");
	allows("rm -rf //home/./me//ws/build/* " ROOT "/*.o");
	allows("rm -rf '/home/me/ws/my dir' build");
	allows("cd x && rm -fr /home/me/ws/~x");
	allows("rm -rf /home/me/ws");
	allows("rm -rf /home/me/ws/");
	allows("rm -rf /home/me/ws/.");
	allows("rm -rf /home/me/ws/*");
	allows("rm -rf /tmp");
	allows("rm -rf /tmp/*");
	allows("rm -rf //tmp//build build /home/me/ws/build");
	blocks("rm -rf /tmp/../etc");
	blocks("rm -rf /tmp/x/..");
	blocks("rm -rf /tmp/.*");
	blocks("rm -rf /tmp/a/.?/.?/etc");
	blocks("rm -rf /tmp/{.,}./etc");
	blocks("rm -rf /tmp/$X");
	blocks("rm -rf /tmp/x/$(echo ..)");
	blocks("rm -rf /tmp/x/`echo ..`/y");
	blocks("rm -rf /tmp /etc");
	blocks("rm -rf /tmp*");
	blocks("rm -rf /tmpx");
	blocks("rm -rf /home/me/ws/build/$X");
	blocks("rm -rf /home/me/ws/.*");
	blocks("rm -rf /home/me/ws/{a,b}");
	blocks("rm -rf /home/me/ws/$X");
	blocks("rm -rf /home/me/ws/$(echo)");
	blocks("rm -rf /home/me/ws/build/../..");
	blocks("rm -rf /home/me/ws/..");
	blocks("rm -rf /home/me/wsx");
	blocks("rm -rf /home/me");
	blocks("rm -rf /home");
	blocks("rm -rf /etc");
	blocks("rm -rf ~/x");
	blocks("rm -rf build /");
	blocks("rm -rf /home/me/ws/build /etc");
	blocks("find . -exec rm -rf /x {} +");
}

TEST(test_rm_in_whole_root)
{
	allows_in("/", "rm -rf /x");
	allows_in("/", "rm -rf /var/lib/apt/lists/*");
	blocks_in("/", "rm -rf /");
	blocks_in("/", "rm -rf //");
	blocks_in("/", "rm -rf /.");
	blocks_in("/", "rm -rf /*");
	blocks_in("/", "rm -rf /?*");
	blocks_in("/", "rm -rf /x/..");
	blocks_in("/", "rm -rf ~");
	blocks_in("", "rm -rf /x");
}

TEST(test_rm_flags)
{
	blocks("rm -fr /");
	blocks("rm -r -f /");
	blocks("rm -f -r /");
	blocks("rm -Rf /");
	blocks("rm -rfv /");
	blocks("rm --recursive --force /");
	blocks("rm -r --force --no-preserve-root /");
	blocks("rm / -rf");
	blocks("rm -rf -- /");
	blocks("/bin/rm -fr /");
	allows("rm -r /x");
	allows("rm -f /x");
	allows("rm -- -rf /");
}

TEST(test_loopback)
{
	allows("curl http://localhost:8080");
	allows("curl localhost");
	allows("curl -sS -X POST -H 'Content-Type: application/json' -d '{\"a\": [1, 2]}' "
	       "'http://127.0.0.1:3000/api?x=1&y=2'");
	allows("curl -so /dev/null -w '%{http_code}' --max-time 5 https://localhost/#x");
	allows("curl -XPUT -m5 'http://[::1]:80/' http://0.0.0.0:9/x http://127.255.0.1");
	allows("npm start & sleep 2; timeout 5 curl -s http://localhost:3000 | head > out 2>&1");
	allows("sh -c 'curl http://localhost' && echo $(curl localhost:1) $HOME");
	allows("wget -qO- http://localhost:8080/");
	allows("wget -q -O out --timeout=5 --tries 1 127.0.0.1:8080");
	allows("nc -z localhost 8080");
	allows("nc -zvw1 127.0.0.1 80-90 && netcat ::1 80 </dev/null");
}

/* A second target, however it comes in, and names that only begin like the loopback's. */
TEST(test_not_only_loopback)
{
	blocks("curl");
	blocks("curl -s");
	blocks("curl http://localhost:8080 http://evil");
	blocks("curl http://localhost evil");
	blocks("curl -X http://localhost evil");
	blocks("curl -H -x evil http://localhost");
	blocks("curl -o http://localhost");
	blocks("curl http://localhost.evil");
	blocks("curl http://localhost@evil");
	blocks("curl http://localhost:80@evil");
	blocks("curl http://localhost:@evil");
	blocks("curl 'http://localhost\\@evil'");
	blocks("curl 'http://localhost http://evil'");
	blocks("curl http://127.0.0.1.evil");
	blocks("curl http://127.0.0.256");
	blocks("curl http://127.0.0.1.2");
	blocks("curl http://127.1");
	blocks("curl 'http://{localhost,evil}/'");
	blocks("curl file:///etc/passwd");
	blocks("curl -x evil http://localhost");
	blocks("curl -sx evil http://localhost");
	blocks("curl --proxy evil http://localhost");
	blocks("curl --connect-to ::evil: http://localhost");
	blocks("curl --resolve localhost:80:1.2.3.4 http://localhost");
	blocks("curl -K config http://localhost");
	blocks("curl --url evil http://localhost");
	blocks("curl -: http://localhost");
	blocks("curl -- http://localhost");
	blocks("curl --max-time=5 http://localhost");
	blocks("wget -i list http://localhost");
	blocks("wget -e x=y http://localhost");
	blocks("wget --quiet=evil http://localhost");
	blocks("wget --input-file=list http://localhost");
	blocks("nc evil 80");
	blocks("nc localhost.evil 80");
	blocks("nc localhost evil");
	blocks("nc -l 80");
	blocks("nc -l localhost 80");
	blocks("nc -e /bin/sh localhost 80");
	blocks("nc -z localhost 80 evil");
	blocks("curl http://localhost; curl http://evil");
	blocks("curl http://localhost $(curl http://evil)");
}

/* What the shell would make of the words is not known. */
TEST(test_loopback_in_plain_words_only)
{
	blocks("curl http://localhost $X");
	blocks("curl http://localhost/$X");
	blocks("curl \"http://localhost/$X\"");
	blocks("curl http://localhost `cat x`");
	blocks("curl http://localhost *");
	blocks("curl http://localhost -d {x,http://evil}");
	blocks("curl http://localhost -H a?b");
	blocks("curl http://localhost -H [a]");
	blocks("curl http://localhost <(ls)");
	blocks("curl http://localhost > $(ls)");
	blocks("ls | xargs curl http://localhost");
	blocks("ls | xargs sh -c 'curl http://localhost'");
	blocks("X=1 curl http://localhost");
	blocks("X=1 sh -c 'curl http://localhost'");
	blocks("env X=1 curl http://localhost");
	blocks("sh -c \"curl http://localhost $X\"");
	blocks("eval curl http://localhost '*'");
	blocks("export http_proxy=evil; curl http://localhost");
	blocks("export HTTPS_PROXY=evil; curl http://localhost");
	blocks("echo url=evil > ~/.curlrc; curl http://localhost");
	allows("echo $X; curl http://localhost");
	allows("case x in *) curl http://localhost;; esac");
}

TEST(test_help_and_version)
{
	allows("curl --version");
	allows("curl --help");
	allows("sudo --version && dd --help");
	allows("/usr/bin/wget --version | head -n 1");
	allows("mkfs.ext4 --help");
	blocks("curl --help evil");
	blocks("curl evil --help");
	blocks("sudo x --help");
	blocks("rm -rf / --help");
	blocks("curl --versio");
	blocks("ls | xargs curl --help");
	blocks("curl --help $X");
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

/*
 * Lines of the maximal length, made of text that could take more than linear time or space. All
 * take a second under the sanitizers; with a quadratic algorithm the test does not end in time.
 */
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
