"""Just enough of C++ to find functions: comments and literals blanked, brackets matched, heads told apart.

Blanking keeps every offset and newline, so a position in the blanked text is a position in the file.
"""

import re

CLOSING = {"(": ")", "{": "}", "[": "]"}
RAW_STRING = re.compile(r'(?:u8|[uUL])?R"([^()\\\s]{0,16})\(')
CLASS_HEAD = re.compile(r"(?:typedef\s+)?(?:class|struct|union|enum)\b")
NAMESPACE_HEAD = re.compile(r'(?:inline\s+)?namespace\b[^(]*$|extern\s*""$')
SIDE_GROUPS = ("alignas", "decltype", "noexcept", "explicit", "requires", "__attribute__", "__declspec", "asm")
MACRO_NAME = re.compile(r"[A-Z][A-Z0-9_]{3,}$")


class Unbalanced(Exception):
    """A bracket without its partner, at an offset."""

    def __init__(self, offset):
        super().__init__(offset)
        self.offset = offset


class Function:
    """name; head: text from its first word to the body or semicolon; start and end offsets; end None: no body."""

    def __init__(self, name, head, start, end):
        self.name, self.head, self.start, self.end = name, head, start, end
        self.parameters = parameter_count(head)


def _blank(text):
    return re.sub(r"[^\n]", " ", text)


def _quote_end(text, at):
    """Offset behind the literal that opens at `at`; an unfinished one ends with its line."""
    quote, i = text[at], at + 1
    while i < len(text) and text[i] not in (quote, "\n"):
        i += 2 if text[i] == "\\" else 1
    return min(i + 1, len(text))


def _is_digit_separator(text, at):
    start = at
    while start > 0 and (text[start - 1].isalnum() or text[start - 1] in "_'."):
        start -= 1
    return start < at and text[start].isdigit()


def _literal_end(text, at):
    """(offset behind the comment or literal that begins at `at`, what stays of it), or None."""
    if text.startswith("//", at):
        end = at
        while True:
            end = text.find("\n", end)
            if end < 0:
                return len(text), ""
            if text[end - 1] != "\\":
                return end, ""
            end += 1
    if text.startswith("/*", at):
        end = text.find("*/", at + 2)
        return (len(text) if end < 0 else end + 2), ""
    if text[at] in "uULR" and not (at > 0 and (text[at - 1].isalnum() or text[at - 1] == "_")):
        raw = RAW_STRING.match(text, at)
        if raw:
            end = text.find(")%s\"" % raw.group(1), raw.end())
            return (len(text) if end < 0 else end + len(raw.group(1)) + 2), '""'
    if text[at] == '"':
        return _quote_end(text, at), '""'
    if text[at] == "'" and not _is_digit_separator(text, at):
        return _quote_end(text, at), "0"
    return None


def code_of(text):
    """text with comments and literals blanked (a string leaves its quotes, a character a 0)."""
    out, i, last = [], 0, 0
    for found in re.finditer(r"[/\"'uULR]", text):
        i = found.start()
        if i < last:
            continue
        literal = _literal_end(text, i)
        if literal is None:
            continue
        end, stays = literal
        out += [text[last:i], stays[: end - i], _blank(text[i + len(stays[: end - i]):end])]
        last = end
    return "".join(out) + text[last:]


def without_directives(code):
    """code with preprocessor lines and their continuations blanked."""
    return re.sub(r"(?m)^[ \t]*#(?:[^\n\\]|\\\n|\\)*", lambda found: _blank(found.group()), code)


def match(code, at):
    """Offset of the bracket that closes the one at `at`."""
    stack = []
    for found in re.compile(r"[][(){}]").finditer(code, at):
        bracket = found.group()
        if bracket in CLOSING:
            stack.append(CLOSING[bracket])
        elif stack.pop() != bracket:
            raise Unbalanced(found.start())
        if not stack:
            return found.start()
    raise Unbalanced(at)


def _angle_end(code, at):
    """Offset behind the template bracket that opens at `at`."""
    depth, i = 0, at
    while i < len(code):
        if code[i] in CLOSING:
            i = match(code, i)
        elif code[i] == "<":
            depth += 1
        elif code[i] == ">" and code[i - 1] != "-":
            depth -= 1
            if depth == 0:
                return i + 1
        i += 1
    return len(code)


def simple_head(head):
    """A head without attributes, template prefix and groups that are no parameter list; operators become words."""
    head = re.sub(r"\boperator\s*\(\s*\)", "operator_call", head)
    head = re.sub(r"\boperator\s*[^\s\w(]+|\boperator\s+[\w:]+\s*[*&]+", "operator_symbol", head)
    head = re.sub(r"^\s*using\s+\w+\s*=", "", head)
    while True:
        found = re.search(r"\[\[|\btemplate\s*<|\b(?:%s)\s*\(" % "|".join(SIDE_GROUPS), head)
        if not found:
            return head.strip()
        opening = found.end() - 1 if found.group() != "[[" else found.start()
        end = _angle_end(head, opening) if head[opening] == "<" else match(head, opening) + 1
        head = head[: found.start()] + " " + head[end:]


def _parameter_list(simple):
    """(offset of the parameter list's bracket, name), or None where the head is no function's."""
    at = simple.find("(")
    while at >= 0:
        if re.search(r"(?<![=!<>+*/%&|^-])=(?!=)", simple[:at]):
            return None
        if simple[at + 1:].lstrip().startswith("*"):  # pointer to function: its parameters are the next group
            inner = simple[at + 1: match(simple, at)]
            at = simple.find("(", match(simple, at))
            return (at, inner.strip("* ")) if at >= 0 else None
        name = re.search(r"~?\w+\s*$", simple[:at])
        if name:
            return at, name.group().strip()
        at = simple.find("(", match(simple, at))
    return None


def parameter_count(head):
    """How many parameters a function's head names; 0 where it names none, or is a macro's use."""
    simple = simple_head(head)
    place = _parameter_list(simple)
    if place is None or MACRO_NAME.match(place[1]) or place[1] == "static_assert":
        return 0
    return comma_count(simple[place[0] + 1: match(simple, place[0])])


def comma_count(inner):
    """Entries of a list, with nested brackets of every kind passed over."""
    if inner.strip() in ("", "void"):
        return 0
    depth, count = 0, 1
    inner = inner.replace("<<", "  ")
    for i, char in enumerate(inner):
        if char in "([{<":
            depth += 1
        elif char in ")]}" or (char == ">" and inner[i - 1] != "-"):
            depth -= 1
        elif char == "," and depth <= 0:
            count += 1
    return count


def _brace_kind(head):
    """What a brace opens at namespace or class scope: scope, function or value."""
    simple = simple_head(head)
    if NAMESPACE_HEAD.match(simple):
        return "scope"
    base = re.search(r"(?<!:):(?!:)", simple)
    bracket = simple.find("(")
    if CLASS_HEAD.match(simple) and (bracket < 0 or (base and base.start() < bracket)):
        return "value" if simple.split()[0] == "enum" or simple.startswith("typedef enum") else "scope"
    place = _parameter_list(simple)
    if place is None:
        return "value"
    behind = simple[match(simple, place[0]) + 1:]
    in_list = re.search(r"(?<!:):(?!:)", behind)
    if in_list and simple[-1] not in ")}":  # a member of a constructor's initialiser list
        return "value"
    return "function"


class Scanner:
    """Walks the scopes of one file and collects its functions, with and without bodies."""

    def __init__(self, code):
        self.code = without_directives(code)
        self.functions = []

    def run(self):
        end = self._scope(0)
        if end < len(self.code):
            raise Unbalanced(end)
        return self.functions

    def _add(self, start, stop, end):
        head = self.code[start:stop]
        start += len(head) - len(head.lstrip())
        place = _parameter_list(simple_head(head))
        if place is not None:
            self.functions.append(Function(place[1], head.strip(), start, end))

    def _open(self, start, at):
        """Handles the brace at `at`: (offset behind it, start of the next head)."""
        kind = _brace_kind(self.code[start:at])
        if kind == "scope":
            end = self._scope(at + 1) + 1
            if end > len(self.code):
                raise Unbalanced(at)
            return end, end
        end = match(self.code, at) + 1
        if kind == "value":
            return end, start
        self._add(start, at, end - 1)
        return end, end

    def _scope(self, i):
        start = i
        while True:
            found = re.compile(r"[][({});]|(?<!:):(?!:)").search(self.code, i)
            if not found:
                return len(self.code)
            char, i = found.group(), found.start()
            if char in "}":
                return i
            if char in ")]":
                raise Unbalanced(i)
            if char in "([":
                i = match(self.code, i) + 1
            elif char == "{":
                i, start = self._open(start, i)
            else:
                if char == ";":
                    self._add(start, i, None)
                if char == ";" or self.code[start:i].strip() in ("public", "private", "protected"):
                    start = i + 1
                i += 1


def lambdas(code):
    """Functions of every lambda in the file; name "lambda"."""
    code = without_directives(code)
    found = []
    for opening in re.finditer(r"\[", code):
        before = code[max(0, opening.start() - 200): opening.start()].rstrip()
        word = re.search(r"\w+$", before)
        if before[-1:] in (")", "]", "[") or (word and word.group() not in ("return", "co_return", "case")):
            continue
        if code.startswith("[[", opening.start()):
            continue
        lambda_ = _lambda(code, opening.start())
        if lambda_:
            found.append(lambda_)
    return found


def _lambda(code, at):
    behind = re.compile(r"\s*").match(code, match(code, at) + 1).end()
    if code[behind: behind + 1] == "<":
        behind = re.compile(r"\s*").match(code, _angle_end(code, behind)).end()
    head = "lambda()"
    if code[behind: behind + 1] == "(":
        end = match(code, behind)
        head = "lambda" + code[behind: end + 1]
        behind = end + 1
    body = re.compile(r"[^;={}()\[\],]*(?:\([^()]*\)[^;={}()\[\],]*)?\{").match(code, behind)
    if not body:
        return None
    return Function("lambda", head, at, match(code, body.end() - 1))
