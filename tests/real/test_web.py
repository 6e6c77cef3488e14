# SPDX-License-Identifier: Apache-2.0
"""What a web project starts: servers that compile and watch, test runners that watch, and a browser. All from npm, pinned, but for
Debian's Chromium."""

import pytest
from conftest import need

VITE = {
    "package.json": '{"name": "app", "private": true, "type": "module"}',
    "index.html": '<!doctype html><div id="app"></div><script type="module" src="/src/main.js"></script>',
    "src/main.js": 'import { text } from "./text.js"\nimport "./style.css"\ndocument.querySelector("#app").textContent = text\n',
    "src/text.js": 'export const text = "first text"\n',
    "src/style.css": "#app { color: red }\n",
}
VITE_RUN = """
vite=$MODULES/vite/bin/vite.js
node $vite build >build.log 2>&1 || { cat build.log >&2; exit 9; }
ls dist dist/assets | sed 's/-.*[.]/./' | sort
node $vite --host --port 5173 --strictPort >log 2>&1 & server=$!
python3 fetch.py http://localhost:5173/ /@vite/client
python3 fetch.py http://127.0.0.1:5173/src/text.js 'first text'
grep -o 'Local:.*' log
# It watches: the change is served, and told.
echo 'export const text = "second text"' >src/text.js
until grep -q 'page reload\\|hmr update' log; do sleep 0.1; done
python3 fetch.py http://localhost:5173/src/text.js 'second text'
kill -TERM $server
wait $server && echo ended 0 || echo ended $?
"""

NEXT = {
    "package.json": '{"name": "app", "private": true}',
    "next.config.js": "module.exports = { turbopack: { root: require('path').dirname(process.env.MODULES) } }\n",
    "app/layout.js": "export default function Layout({ children }) { return <html><body>{children}</body></html> }\n",
    "app/page.js": "export default function Page() { return <h1>first text</h1> }\n",
    "app/api/time/route.js": 'export const dynamic = "force-dynamic"\nexport function GET() { return Response.json({ ok: 20 + 22 }) }\n',
}
NEXT_RUN = """
next=$MODULES/next/dist/bin/next
node $next build >build.log 2>&1 || { cat build.log >&2; exit 9; }
grep -o '[^ ]* /[a-z/]*$' build.log | sort -u
node $next start -p 3000 >start.log 2>&1 & server=$!
python3 fetch.py http://localhost:3000/ 'first text'
python3 fetch.py http://localhost:3000/api/time
kill -TERM $server
wait $server && echo ended 0 || echo ended $?
node $next dev -p 3001 >dev.log 2>&1 & server=$!
python3 fetch.py http://localhost:3001/ 'first text'
echo 'export default function Page() { return <h1>second text</h1> }' >app/page.js
python3 fetch.py http://localhost:3001/ 'second text'
kill -TERM $server
wait $server && echo ended 0 || echo ended $?
"""

WEBPACK = {
    "package.json": '{"name": "app", "private": true}',
    "webpack.config.js": "module.exports = { mode: 'development', devServer: { port: 8080, static: 'public' } }\n",
    "public/index.html": '<script src="main.js"></script>',
    "src/index.js": 'document.body.textContent = "first text"\n',
}
WEBPACK_RUN = """
webpack=$MODULES/webpack-cli/bin/cli.js
node $webpack build >build.log 2>&1 || { cat build.log >&2; exit 9; }
ls dist
node $webpack serve >log 2>&1 & server=$!
python3 fetch.py http://localhost:8080/ main.js
python3 fetch.py http://localhost:8080/main.js 'first text'
echo 'document.body.textContent = "second text"' >src/index.js
python3 fetch.py http://localhost:8080/main.js 'second text'
kill -INT $server || true
kill -TERM $server
wait $server && echo ended 0 || echo ended $?
"""

JEST = {
    "package.json": '{"name": "app", "private": true, "jest": {}}',
    "sum.js": "module.exports = (a, b) => a + b\n",
    "sum.test.js": "test('adds', () => { expect(require('./sum')(40, 2)).toBe(42) })\n",
    "other.test.js": "test('is', () => { expect(1).toBe(1) })\n",
    # A person at a terminal: a run of what changed, a change, and the end.
    "person.py": """
import os, pty, re, select, sys
pid, fd = pty.fork()
if pid == 0:
    os.execvp(sys.argv[1], sys.argv[1:])
text = ""
def until(wanted):
    global text
    while wanted not in text:
        if not select.select([fd], [], [], 120)[0]:
            sys.exit(f"no {wanted!r} in {text!r}")
        try:
            text += re.sub(r"\\x1b\\[[0-9;?]*[A-Za-z]", "", os.read(fd, 65536).decode(errors="replace"))
        except OSError:
            sys.exit(f"ended without {wanted!r}: {text!r}")
    print("seen", wanted, flush=True)
    text = text[text.index(wanted) + len(wanted):]
until("No tests found related to files changed since last commit")
until("to trigger a test run")
open("sum.js", "w").write("module.exports = (a, b) => a - b\\n")
until("1 failed")
until("Press w to show more")
open("sum.js", "w").write("module.exports = (a, b) => b + a\\n")
until("1 passed")
until("Press w to show more")
os.write(fd, b"a")
until("2 passed")
until("Press w to show more")
os.write(fd, b"q")
print("ended", os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]))
""",
}
JEST_RUN = """
git init -q . && git add . && git -c user.name=a -c user.email=a@b commit -q -m one
node $MODULES/jest/bin/jest.js --ci 2>&1 | grep -E '^(Tests|Test Suites):'
TERM=xterm python3 person.py node $MODULES/jest/bin/jest.js --watch
"""

CHROMIUM = {
    "page/index.html": "<h1>first</h1><script>document.querySelector('h1').textContent = 'by ' + 'script'</script>",
    "click.mjs": """
import { chromium } from "playwright-core";
const browser = await chromium.launch({ executablePath: "/usr/bin/chromium", args: ["--no-sandbox"] });
const page = await browser.newPage();
await page.goto("http://localhost:8000/");
console.log(await page.textContent("h1"));
await page.setContent("<button onclick=\\"this.textContent = 'clicked'\\">no</button>");
await page.click("button");
console.log(await page.textContent("button"), (await page.screenshot()).length > 1000);
await browser.close();
""",
}
CHROMIUM_RUN = """
python3 -m http.server -d page 8000 >log 2>&1 & server=$!
python3 fetch.py http://localhost:8000/ first
chromium --headless --no-sandbox --disable-gpu --dump-dom http://localhost:8000/ 2>chromium.log | grep -o '<h1>[^<]*' || { cat chromium.log >&2; exit 9; }
chromium --headless --no-sandbox --disable-gpu --screenshot=$PWD/shot.png http://localhost:8000/ 2>>chromium.log
python3 -c 'print(open("shot.png", "rb").read(8))'
kill $server
"""

CASES = {"vite": (VITE, VITE_RUN), "next": (NEXT, NEXT_RUN), "webpack-dev-server": (WEBPACK, WEBPACK_RUN), "jest --watch": (JEST, JEST_RUN)}


@pytest.mark.parametrize("name", CASES)
def test_a_project(both, modules, name):
    files, script = CASES[name]
    said = both(script, files, modules)
    assert "ended" in said


def test_chromium(both):
    need("chromium")
    assert "<h1>by script" in both(CHROMIUM_RUN, CHROMIUM)


def test_a_browser_that_is_driven(both, modules):
    need("chromium")
    said = both("python3 -m http.server -d page 8000 >log 2>&1 & server=$!\npython3 fetch.py http://localhost:8000/ first\n"
                "node click.mjs\nkill $server\n", CHROMIUM, modules)
    assert "clicked true" in said
