"""The tables that tidy enforces. Change the house here; the code that reads them stays."""

TOP_LEVEL = {
    "CMakeLists.txt", "src", "include", "engine", "plugin", "perf", "tests", "tuning",
    "README.md", "ARCHITECTURE.md", "CONTRIBUTING.md", "SECURITY.md", "CHANGELOG.md", "LICENSE",
    "CMakePresets.json",
}  # and dotfiles

# Module -> modules it may include besides itself. The longest prefix of a path is its module; None:
# anything.
ARROWS = {
    "include/mesh": set(),
    "src/base": {"include/mesh"},
    "src/verbs": {"include/mesh", "src/base"},
    "src/topo": {"include/mesh", "src/base"},
    "src/relay": {"include/mesh", "src/base", "src/verbs"},
    "src/soft": {"include/mesh", "src/base", "src/verbs"},
    "engine/message": {"include/mesh", "src/base"},
    "engine/control": {"include/mesh", "src/base", "src/relay", "engine/message"},
    "engine/data": {"include/mesh", "src/base", "src/verbs", "src/relay", "engine/message"},
    "engine/link": {"include/mesh", "src/base", "src/verbs", "src/relay", "src/topo",
                    "engine/message", "engine/control", "engine/data"},
    "engine": {"include/mesh", "src/base", "src/verbs", "src/relay", "src/topo", "engine/message",
               "engine/control", "engine/data", "engine/link"},
    "tuning": {"include/mesh", "src/base"},
    "plugin/oneshot": {"include/mesh", "src/base"},
    "plugin": {"include/mesh", "src/base", "src/verbs", "src/soft", "engine", "tuning",
               "plugin/oneshot"},
    "perf": None,
    "tests": None,
}

# (rule, pattern over #include lines, pattern of the paths that may have them)
FENCED_HEADERS = [
    ("nccl-header", r'["<](plugin/nccl/|nccl)', r"(plugin|perf|tests)/"),
    ("verbs-header", r"<(infiniband|rdma)/",
     r"(src/verbs|src/soft|tests|engine/data)/|engine/link/link_setup"),
    ("hwloc-header", r"[\"<]hwloc", r"src/topo/"),
]

# (rule, pattern over code without comments and strings, pattern of the paths that may have it)
FENCED_WORDS = [
    ("getenv", r"\b(secure_getenv|getenv|environ)\b",
     r"(src/base/config|perf/driver/environment)\.cc$"),
    ("setenv", r"\b(setenv|unsetenv|putenv|clearenv)\b", r"tests/|perf/driver/"),
    ("dlopen", r"\bdl(m?open|sym)\b", r"(src/verbs|src/topo|perf/driver|tests)/"),
]

# Identifiers that are out of use, as patterns of whole identifiers, and the words to write instead.
# A rename that ends a misleading name adds it here, so that it does not come back.
OUT_OF_USE = [
    (r"idx|cnt|cmpl|buf|len|ptr|ctx|conn|num",
     "a whole word: index, count, completion, buffer, bytes, pointer, context, connection"),
    (r"LinkControl", "Link"),
    (r"is_odd|odd_|advance_oddly", "needs_slow_path, slow_path_, advance_slow_path"),
    (r"(take|grant|forget|post|stage)_even|even_fits|even_budget_|Even(Message|Plan)", "uniform"),
]

# The files that a message passes through, and the code that has no place in them.
HOT_FILES = {
    "engine/data/channel_datapath.cc",
    "engine/data/progress_loop.cc",
    "engine/data/progress_loop_datapath.h",
    "engine/data/queue_pair_datapath.h",
    "engine/data/recv_channel.cc",
    "engine/data/recv_channel_datapath.h",
    "engine/data/send_channel.cc",
    "engine/data/send_channel_datapath.h",
    "engine/message/ring_cursor.h",
}
HOT_FORBIDDEN = [
    ("std::function", r"\bstd::function\b"),
    ("std::string", r"\bstd::string\b"),
    ("std::map", r"\bstd::(unordered_)?(multi)?map\b"),
    ("std::mutex", r"\bstd::(\w+_)?mutex\b"),
    ("shared_ptr", r"\b(make_shared|shared_ptr)\b"),
    ("throw", r"\bthrow\b"),
    ("new", r"\bnew\b"),
    ("make_unique", r"\bmake_unique\b"),
    ("LOG_", r"\bLOG_\w+"),
]

LINE_COLUMNS_MAX = 100
PRODUCT_MODULES = ("include/", "src/", "engine/", "plugin/", "tuning/")

# Every .cc of these is named in a CMake file.
CMAKE_LISTED_MODULES = ("src/", "engine/", "tuning/", "plugin/")

# Written so that this file does not contain them.
MACHINE_WORDS = r"(?<![\w.}])/(?:work|root)/|\bwork[p]lace\b"
UNFILED_TODO = r"\bTO[D]O\b(?!\([\w#])|\bFIX[M]E\b"
