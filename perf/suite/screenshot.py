#!/usr/bin/env python3
"""Opens a report in headless Chromium, writes a picture of it, and lets the browser look for texts
that overlap or leave their plot. Needs Chromium (Debian: chromium); no test uses it."""

import argparse
import os
import re
import shutil
import subprocess
import sys
import tempfile

BROWSERS = ("chromium", "chromium-browser", "google-chrome")
TIME_S_MAX = 120
# Put into a copy of the page: reports where the browser really placed each text, by plot.
CHECK = """<script>
const found = [], say = text => found.push(text);
document.querySelectorAll('svg').forEach((plot, number) => {
  const frame = plot.getBoundingClientRect(), name = 'plot ' + (number + 1) + ': ';
  const texts = [...plot.querySelectorAll('text')].map(
    text => ({text: text.textContent, box: text.getBoundingClientRect()}));
  texts.forEach((one, i) => {
    const a = one.box;
    if (a.left < frame.left || a.right > frame.right || a.top < frame.top ||
        a.bottom > frame.bottom) say(name + 'cut off: ' + one.text);
    texts.slice(i + 1).forEach(other => {
      const b = other.box;
      if (a.left < b.right && b.left < a.right && a.top < b.bottom - 2 &&
          b.top < a.bottom - 2) say(name + one.text + ' | ' + other.text);
    });
  });
});
document.title = 'plots ' + document.querySelectorAll('svg').length + ', faults ' + found.length;
document.body.innerHTML = '<pre id="faults">' + found.join('\\n').replace(/[<&]/g, ' ') + '</pre>';
</script>"""


def browse(browser, *arguments):
    with tempfile.TemporaryDirectory() as profile:
        command = [browser, "--headless", "--no-sandbox", "--disable-gpu", "--hide-scrollbars",
                   "--user-data-dir=" + profile, *arguments]
        return subprocess.run(command, capture_output=True, text=True, timeout=TIME_S_MAX,
                              check=False)


def faults(browser, page):
    """Returns (number of plots, lines about what the browser found)."""
    with tempfile.NamedTemporaryFile("w", suffix=".html", encoding="utf-8") as copy:
        with open(page, encoding="utf-8") as stream:
            copy.write(stream.read().replace("</body>", CHECK + "</body>"))
        copy.flush()
        shown = browse(browser, "--window-size=1280,2000", "--dump-dom",
                       "file://" + copy.name).stdout
    count = re.search(r"<title>plots (\d+), faults \d+</title>", shown)
    lines = re.search(r'<pre id="faults">(.*?)</pre>', shown, re.S)
    if not count or not lines:
        raise RuntimeError("the browser did not show the page")
    return int(count.group(1)), [line for line in lines.group(1).splitlines() if line]


def main():
    parser = argparse.ArgumentParser(
        description=__doc__,
        epilog="Exit status: 0 success; 1 texts overlap or are cut off; 77 no browser.")
    parser.add_argument("page", help="the HTML report")
    parser.add_argument("picture", help="PNG file to write")
    parser.add_argument("--width", type=int, default=1280,
                        help="width of the window, 320..4000 pixels (default %(default)s)")
    parser.add_argument("--height", type=int, default=2400,
                        help="height of the window, 320..20000 pixels (default %(default)s)")
    options = parser.parse_args()
    for name, value, most in (("--width", options.width, 4000),
                              ("--height", options.height, 20000)):
        if not 320 <= value <= most:
            parser.error("%s %d is not in 320..%d" % (name, value, most))
    if not os.path.isfile(options.page):
        parser.error("%s: no such file" % options.page)
    browser = next(filter(None, map(shutil.which, BROWSERS)), None)
    if not browser:
        print("screenshot: no browser is installed (Debian: chromium)", file=sys.stderr)
        return 77
    picture = os.path.abspath(options.picture)
    window = "--window-size=%d,%d" % (options.width, options.height)
    browse(browser, window, "--screenshot=" + picture, "file://" + os.path.abspath(options.page))
    if not os.path.exists(picture):
        print("screenshot: the browser wrote no picture", file=sys.stderr)
        return 1
    plots, found = faults(browser, options.page)
    print("%s: %d plots, %d texts overlap or are cut off" % (options.picture, plots, len(found)))
    print("\n".join(found), end="\n" if found else "")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
