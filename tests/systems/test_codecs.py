"""Codecs: the public suite on every syntax, round trips of generated files, and what each of them refuses."""

from __future__ import annotations

import string
from itertools import permutations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from trimtab.errors import UsageError
from trimtab.systems.codec import CODECS, Codec, CodecError, Template, codec_of
from trimtab.systems.codec.yaml_lines import YamlLines
from trimtab.testing.codec_suite import CodecSample, CodecSuite

SAMPLES = {
    "keyvalue": CodecSample(
        codec=codec_of("keyvalue"),
        text="# by hand\nwork_mem = 4MB   # per sort\n\nname='a b'\nempty =\n",
        changes={"work_mem": "8MB", "name": "c d"},
        added={"new.key": "7"},
        kept=("# by hand", "   # per sort", "empty =", "name='"),
    ),
    "ini": CodecSample(
        codec=codec_of("ini"),
        text="top = 1\n[client]\nport = 1\n\n[mysqld]\nskip-name-resolve\nport=2 ; here\n\n; end\n[a.b]\nc = 3\n",
        changes={"client.port": "9", "mysqld.port": "10", "top": "2", "a.b.c": "4"},
        added={"mysqld.sort_buffer_size": "1M", "other.key": "x", "client.host": "h", "first": "1"},
        kept=("skip-name-resolve", "; end", " ; here"),
    ),
    "yaml": CodecSample(
        codec=codec_of("yaml"),
        text="---\n# top\nstorage:\n  dbPath: /data  # here\n  wiredTiger:\n    engineConfig:\n      cacheSizeGB: 1\n"
        "seeds:\n  - host: a\n    port: 1\nnote: |\n  port: 9\n  more\nname: 'x y'\n",
        changes={"storage.wiredTiger.engineConfig.cacheSizeGB": "2", "name": "z"},
        added={"storage.wiredTiger.engineConfig.direct": "true", "storage.journal.commit": "5", "net.port": "27017"},
        kept=("# top", "  # here", "  - host: a", "    port: 1", "  port: 9", "name: '"),
    ),
    "mongod": CodecSample(
        codec=codec_of("mongod"),
        text="net:\n  port: 1 # here\nstorage:\n  configString: 'eviction=(threads_min=4),cache_overhead=8'\n",
        changes={"net.port": "2", "storage.configString#eviction.threads_min": "2"},
        added={"storage.configString#eviction.threads_max": "6", "storage.configString#io_capacity.total": "7"},
        kept=("# here", "cache_overhead=8"),
    ),
    "redis": CodecSample(
        codec=codec_of("redis"),
        text='# redis, as on C:\\\nport 6379\nsave 900 1\nrequirepass "a b"\nclient-output-buffer-limit normal 0 0 0\n',
        changes={"port": "6380", "save": "60 1000", "requirepass": "c"},
        added={"maxmemory": "100mb", "io-threads": "2"},
        kept=("# redis", 'requirepass "'),
    ),
    "directives (httpd)": CodecSample(
        codec=codec_of("directives"),
        text="# httpd\nTimeout 60\n<IfModule mpm_event_module>\n    ServerLimit  4\n</IfModule>\n"
        '<Directory "/x">\n  Timeout 1\n</Directory>\nLogFormat "%h \\\n %l" common\n',
        changes={"timeout": "30", "IfModule mpm_event_module.ServerLimit": "8"},
        added={"KeepAliveTimeout": "5"},
        kept=("# httpd", "</IfModule>", "  Timeout 1", 'LogFormat "%h \\'),
    ),
    "nginx": CodecSample(
        codec=codec_of("nginx"),
        text="# nginx\nworker_processes  auto;\nevents { worker_connections 768; }\nhttp {\n    # in it\n"
        "    gzip on; # all\n    server { listen 80; location / { root '/a;b'; } }\n}\n",
        changes={"worker_processes": "4", "events.worker_connections": "1024", "http.gzip": "off"},
        added={"worker_rlimit_nofile": "4096", "http.keepalive_timeout": "30", "events.multi_accept": "on"},
        kept=("# nginx", "    # in it", "# all", "root '/a;b';"),
    ),
    "xml": CodecSample(
        codec=codec_of("xml"),
        text="<?xml version='1.0'?>\n<!-- <Connector maxThreads='1'/> -->\n<Server port=\"8005\">\n  <Service name='a>b'>\n"
        '    <Connector port="8080" maxThreads="200"\n       acceptCount=\'100\' />\n    <Connector port="8009"/>\n'
        "  </Service>\n</Server>\n",
        changes={
            "Connector[port=8080]@maxThreads": "400",
            "Connector[port=8080]@acceptCount": "9",
            "Service@name": "<&'\"",
        },
        added={"Server/Service/Connector[port=8009]@maxThreads": "7"},
        kept=("<!-- <Connector maxThreads='1'/> -->", "<?xml version='1.0'?>"),
    ),
    "jvm": CodecSample(
        codec=codec_of("jvm"),
        text="# heap\n-Xms512m -Xmx1g\n-XX:+UseG1GC\n-XX:MaxGCPauseMillis=200\n-Dapp.name=x\n#-Xmx4g\n",
        changes={"-Xmx": "2g", "-XX:UseG1GC": "false", "-XX:MaxGCPauseMillis": "100", "-Dapp.name": "y"},
        added={"-XX:ParallelGCThreads": "2", "-Xss": "1m", "-XX:UseStringDeduplication": "true"},
        kept=("# heap", "-Xms512m", "#-Xmx4g"),
    ),
    "scalar": CodecSample(codec=codec_of("scalar"), text="60\n", changes={"value": "10"}),
    "scalar with a choice": CodecSample(
        codec=codec_of("scalar"), text="always [madvise] never\n", changes={"value": "never"}
    ),
    "template": CodecSample(
        codec=codec_of("template", template="zstd -{{level}} # {{comment}}\n-T{{threads}}"),
        text="zstd -3 # fast\n-T1",
        changes={"level": "19", "threads": "2"},
        kept=("# fast",),
    ),
}


class TestCodecs(CodecSuite):
    @pytest.fixture(params=list(SAMPLES))
    def sample(self, request: pytest.FixtureRequest) -> CodecSample:
        return SAMPLES[request.param]

    @pytest.fixture(params=["as it is", "crlf", "no end of line"])
    def text(self, request: pytest.FixtureRequest, sample: CodecSample) -> str:
        if isinstance(sample.codec, Template):  # its line ends are the template's
            return sample.text
        shapes = {
            "as it is": sample.text,
            "crlf": sample.text.replace("\n", "\r\n"),
            "no end of line": sample.text.rstrip(),
        }
        return shapes[request.param]


def test_every_codec_has_a_sample() -> None:
    assert {sample.codec.name for sample in SAMPLES.values()} == set(CODECS)


# --- generated files ---

WORDS = st.text(string.ascii_letters + string.digits + "_", min_size=1, max_size=8)
KEYS = st.builds(lambda first, rest: first + rest, st.sampled_from(string.ascii_letters), WORDS)
VALUES = st.text(string.ascii_letters + string.digits + "_./:+-%", min_size=1, max_size=10).filter(
    lambda text: text[0] not in "-:%" and not text.endswith(":")
)
NOISE = st.sampled_from(["", "   ", "# a comment = 1", "\t# another"])
ENDS = st.sampled_from(["\n", "\r\n"])
FORMS = {
    "keyvalue": ["{key} = {value}", "{key}={value}", "  {key} =  '{value}'  # why"],
    "ini": ["{key} = {value}", "{key}={value} ; why"],
    "yaml": ["{key}: {value}", '{key}:  "{value}"  # why'],
    "directives": ["{key} {value}", '  {key}   "{value}"'],
    "redis": ["{key} {value}", '\t{key}   "{value}"'],
    "nginx": ["{key} {value};", "  {key}  '{value}' ; # why"],
    "jvm": ["-XX:{key}={value}", "  -XX:{key}={value}  -Xlog"],
}


@st.composite
def files(draw: st.DrawFn) -> tuple[Codec, str, dict[str, str]]:
    """A codec, a file of its syntax, and values: some of addresses that the file has, some of others."""
    name = draw(st.sampled_from(sorted(FORMS)))
    end = draw(ENDS)
    pairs = draw(st.lists(st.tuples(KEYS, VALUES), max_size=6, unique_by=lambda pair: pair[0].casefold()))
    lines = []
    for key, value in pairs:
        lines += [draw(NOISE), draw(st.sampled_from(FORMS[name])).format(key=key, value=value)]
    text = end.join([*lines, draw(NOISE)]) + draw(st.sampled_from(["", end]))
    known = st.sampled_from([key for key, _ in pairs]) if pairs else KEYS
    keys = draw(st.lists(st.one_of(known, KEYS), max_size=4, unique_by=str.casefold))
    taken = {key.casefold(): key for key, _ in pairs}
    prefix = "-XX:" if name == "jvm" else ""
    values = {prefix + taken.get(key.casefold(), key): draw(VALUES) for key in keys}
    return codec_of(name), text, values


@pytest.mark.slow
@given(files())
def test_round_trips(made: tuple[Codec, str, dict[str, str]]) -> None:
    codec, text, values = made
    before = codec.read(text)
    assert codec.write(text, {address: one.value for address, one in before.items()}) == text
    after = codec.write(text, dict(values))
    now = codec.read(after)
    assert {address: now[codec.key(address)].value for address in values} == values
    assert {a: one.value for a, one in now.items() if a not in map(codec.key, values)} == {
        a: one.value for a, one in before.items() if a not in map(codec.key, values)
    }
    ours = {address: (value,) for address, value in values.items()}
    assert codec.withdraw(after, text, ours) == text
    removed = codec.write(after, dict.fromkeys(values))
    assert not set(codec.read(removed)) & set(map(codec.key, values))


@given(
    st.sampled_from(sorted(set(CODECS) - {"template"})),
    st.text(max_size=200),
    st.text(max_size=10),
    st.text(max_size=10),
)
def test_any_text_is_kept_or_refused(name: str, text: str, address: str, value: str) -> None:
    """Whatever a file, an address and a value are: nothing but a refusal, or a value that is read back."""
    codec = codec_of(name)
    try:
        read = {address: one.value for address, one in codec.read(text).items()}
        assert codec.write(text, dict(read)) == text
        after = codec.write(text, {address: value})
    except CodecError:
        return
    located = codec.find(after, address)
    assert located is not None
    assert located.value == value
    assert codec.withdraw(after, text, {address: (value,)}) == text or codec.read(text).get(codec.key(address))


def test_a_yaml_mapping_that_was_made_for_ours_goes_with_it() -> None:
    """Cassandra refuses an empty one, and would not start with its last good file."""
    codec, found = codec_of("yaml"), "a: 1\nempty:\nmemtable:\n  trie:\n    class: T\n"
    ours = {"sstable.selected_format": ("bti",), "b": ("2",), "memtable.trie.parameters.shards": ("4",)}
    after = codec.write(found, {address: value for address, (value,) in ours.items()})
    for order in permutations(ours):
        assert codec.withdraw(after, found, {address: ours[address] for address in order}) == found
    assert codec.withdraw(f"{after}c: 3\n", found, ours) == f"{found}c: 3\n"
    assert "sstable:\n" not in codec.withdraw(f"{after}c: 3\n", found, {"sstable.selected_format": ("bti",)})
    for theirs in ("  other: 1\n", "  - 1\n", "- 1\n"):
        grown = after.replace("  selected_format: bti\n", f"  selected_format: bti\n{theirs}")
        assert codec.withdraw(grown, found, ours) == f"{found}sstable:\n{theirs}"


# --- what is refused ---

TWICE = {
    "keyvalue": ("a = 1\nb = 2\na = 3\n", "a"),
    "ini": ("[s]\na = 1\n[s]\na = 3\n", "s.a"),
    "yaml": ("a: 1\nb: 2\na: 3\n", "a"),
    "directives": ("A 1\nb 2\na 3\n", "a"),
    "redis": ("A 1\nb 2 \\\na 3\n", "a"),
    "nginx": ("a 1; b 2; a 3;", "a"),
    "xml": ('<s><c a="1"/><c a="2"/></s>', "s/c@a"),
    "jvm": ("-Xmx1g\n-Xmx2g\n", "-Xmx"),
}


@pytest.mark.parametrize("name", sorted(TWICE))
def test_an_address_that_comes_twice_is_refused(name: str) -> None:
    text, address = TWICE[name]
    codec = codec_of(name)
    with pytest.raises(CodecError, match=r"comes 2 times \(lines \d and \d\): which one counts is not certain"):
        codec.find(text, address)
    with pytest.raises(CodecError, match="comes 2 times"):
        codec.write(text, {address: "9"})


@pytest.mark.parametrize(
    ("name", "found", "added"),
    [
        ("keyvalue", "a = 1 # here\nb = 2\n", "a = 3\n"),
        ("keyvalue", "b = 2\n", "a = 3\n"),
        ("directives", "a 1\nb 2\n", "A 3\n"),
        ("directives", "b 2\n", "A 9\n"),
        ("yaml", "b: 2\n", "a: 3\n"),
        ("nginx", "a '1'; b 2;\n", "a 3;\n"),
    ],
)
def test_a_line_that_somebody_adds_beside_ours_stays_and_keeps_nothing_of_ours(
    name: str, found: str, added: str
) -> None:
    """Also where it says the same as ours."""
    codec = codec_of(name)
    changed = codec.write(found, {"a": "9", "b": "8"})
    assert codec.withdraw(changed + added, found, {"a": ["9"], "b": ["7", "8"]}) == found + added
    theirs = changed.replace("9", "5") + added
    assert codec.withdraw(theirs, found, {"a": ["7"], "b": ["8"]}) == theirs.replace("8", "2"), "none of them is ours"


def test_a_key_that_had_no_value_goes_where_somebody_has_added_it_again() -> None:
    codec, found = YamlLines(), "a:\nb: 2\n"
    changed = codec.write(found, {"a": "9", "b": "8"})
    assert codec.withdraw(changed + "a: 3\n", found, {"a": ["9"], "b": ["8"]}) == "b: 2\na: 3\n"


@pytest.mark.parametrize(
    ("name", "text", "address", "value", "message"),
    [
        ("keyvalue", "a = 1\n", "a", "1\nb = 2", "cannot be written|other entries"),
        ("keyvalue", "a = 1\n", "a", "1 # x", "cannot be written"),
        ("keyvalue", "a = 1\n", "b = c", "1", "is not a key"),
        ("directives", "a 1\n", "IfModule x.a", "1", "cannot be added"),
        ("nginx", "a 1;\n", "a", "1; load_module x", "cannot be written|other entries"),
        ("nginx", "a 1;\n", "http.gzip", "on", "has 0 blocks 'http'"),
        ("nginx", "a '1;\n", "a", "2", "a quote is not closed"),
        ("yaml", "a:\n  - 1\n  - 2\n", "a", "3", "no plain value on one line"),
        ("yaml", "a: [1,\n  2]\n", "a", "3", "no plain value on one line"),
        ("yaml", "a: 5\n", "a.b", "3", "'a' is not one mapping"),
        ("yaml", "a: null\n", "a.b", "3", "'a' is not one mapping"),
        ("yaml", "a:\n  - 1\n", "a.b", "3", "'a' is not one mapping"),
        ("yaml", "a: {c: 1}\n", "a.b", "3", "(?s)'a' is not one mapping.*hint: .*each key on a separate line"),
        ("yaml", "a: # why\n- x: 1\nb: 2\n", "a.b.c", "3", "'a' is not one mapping"),
        ("yaml", "a: 5\n", "a", "x: y", "cannot be written|other entries"),
        ("xml", "<a/>", "b@c", "1", "has 0 such elements"),
        ("xml", "<a/>", "a", "1", "is not a path"),
        ("jvm", "-XX:+UseG1GC\n", "-XX:UseG1GC", "maybe", "neither true nor false"),
        ("jvm", "", "-jar", "x", "is not an option that can be set"),
        ("scalar", "1\n", "other", "2", "its only address is|not in a file of one value"),
        ("scalar", "1\n", "value", "2\n3", "more than one line"),
    ],
)
def test_what_cannot_be_written_is_refused(name: str, text: str, address: str, value: str, message: str) -> None:
    with pytest.raises(CodecError, match=message):
        codec_of(name).write(text, {address: value})


def test_a_file_that_does_not_fit_its_template_is_refused() -> None:
    codec = codec_of("template", template="-{{level}}\n")
    with pytest.raises(CodecError, match="does not fit its template"):
        codec.read("-3\n-9\n")


@pytest.mark.parametrize(
    ("template", "message"),
    [("nothing", "no places"), ("{{a}}{{b}}", "two places touch"), ("{{a}} {{a}}", "'a' comes twice")],
)
def test_an_ambiguous_template_is_refused(template: str, message: str) -> None:
    with pytest.raises(UsageError, match=message):
        codec_of("template", template=template)


def test_an_unknown_codec_is_refused() -> None:
    with pytest.raises(UsageError, match="unknown codec='toml'"):
        codec_of("toml")


@pytest.mark.parametrize(
    ("name", "text", "changes", "after"),
    [
        (
            "directives",
            "AcceptFilter https data\nacceptfilter  http   data\n",
            {"AcceptFilter http": "none", "AcceptFilter nntp": "data"},
            "AcceptFilter https data\nacceptfilter  http   none\nAcceptFilter nntp data\n",
        ),
        (
            "jvm",
            "-XX:-UseSerialGC -XX:+UseG1GC -XX:+UseMaximumCompactionOnSystemGC\n",
            {"-XX:Use*GC": "Parallel"},
            "-XX:-UseSerialGC -XX:+UseParallelGC -XX:+UseMaximumCompactionOnSystemGC\n",
        ),
        ("jvm", "-Xmx1g\n", {"-XX:Use*GC": "Z"}, "-Xmx1g\n-XX:+UseZGC\n"),
        (
            "jvm",
            '-XX:NewRatio=3 # was -XX:NewRatio=5 -XX:+UseParallelGC\n-Dcolour=#fff "-Dx=a #b" -XX:+UseG1GC\t#-XX:+UseZGC\n',
            {"-XX:NewRatio": "4", "-Dcolour": "#000", "-XX:Use*GC": "Serial"},
            '-XX:NewRatio=4 # was -XX:NewRatio=5 -XX:+UseParallelGC\n-Dcolour=#000 "-Dx=a #b" -XX:+UseSerialGC\t#-XX:+UseZGC\n',
        ),
        (  # quotes around a value are none of it, and in them no option begins; those around options end them
            "jvm",
            '-Dx="5" -XX:NewRatio=\'3\' "-Dy=1" -Dw="a -XX:MinHeapFreeRatio=9" -Dv=a"b"\nOPTS="-Dz=1 -Xmx1g" -Xms1g\n',
            {"-Dx": "7", "-XX:NewRatio": "4", "-Dy": "2", "-Dz": "3", "-Xmx": "2g", "-XX:MinHeapFreeRatio": "8"},
            '-Dx="7" -XX:NewRatio=\'4\' "-Dy=2" -Dw="a -XX:MinHeapFreeRatio=9" -Dv=a"b"\nOPTS="-Dz=3 -Xmx2g" -Xms1g\n'
            "-XX:MinHeapFreeRatio=8\n",
        ),
        ("yaml", "---\na: 1\n...\n", {"b.c": "2"}, "---\na: 1\nb:\n  c: 2\n...\n"),
        (
            "nginx",
            "http {\n set $a ${b}c;\n map $h $i { ~^x}y 1; }\n gzip on;\n}\n",
            {"http.gzip": "off", "http.set": "$a ${b}d", "http.map $h $i.~^x}y": "2"},
            "http {\n set $a ${b}d;\n map $h $i { ~^x}y 2; }\n gzip off;\n}\n",
        ),
        (
            "xml",
            '<s><c e="1" a="1"/><c a="2"/></s>',
            {"s/c[e=]@a": "3", "s/c[e=1]@b": "4"},
            '<s><c e="1" a="1" b="4"/><c a="3"/></s>',
        ),
    ],
)
def test_an_address_that_is_more_than_a_name(name: str, text: str, changes: dict[str, str], after: str) -> None:
    codec = codec_of(name)
    assert codec.write(text, changes) == after
    assert {address: codec.last(after, address) for address in changes} == changes
    assert codec.withdraw(after, text, {address: (value,) for address, value in changes.items()}) == text
    moved = f"{after}# by somebody\n"
    assert (
        codec.withdraw(moved, text, {address: (value,) for address, value in changes.items()})
        == f"{text}# by somebody\n"
    )


def test_a_block_with_a_bracket_among_its_words_ends_where_it_ends() -> None:
    """httpd reads the words of a block up to the last bracket of the line, and passes over what follows."""
    codec = codec_of("directives")
    text = '<IfModule event>\n<IfVersion >= 2.4>\nA 1\n</IfVersion>\nB 2\n</IfModule> # end\n<If "5 > 3"> #\nC 3\n</If>\nD 4\n'
    addresses = ["IfModule event.IfVersion >= 2.4.A", "IfModule event.B", 'If "5 > 3".C', "D"]
    assert [(entry.address, entry.value) for entry in codec.entries(text)] == [*zip(addresses, "1234", strict=True)]
    assert codec.find(text, "B") is None
    assert codec.write(text, {"IfModule event.B": "9"}) == text.replace("B 2", "B 9")


def test_a_backslash_carries_a_line_on_in_httpd_alone() -> None:
    """Redis reads line by line: what follows such a comment counts, and a second line of ours would stand beside it."""
    text = "# moved from C:\\redis\\\nmaxmemory 1gb\n"
    assert codec_of("directives").find(text, "maxmemory") is None
    codec = codec_of("redis")
    found = codec.find(text, "maxmemory")
    assert found is not None
    assert (found.value, found.line) == ("1gb", 2)
    assert codec.write(text, {"maxmemory": "2gb"}) == text.replace("1gb", "2gb")


def test_a_java_that_only_checks_its_options_opens_no_log_and_no_port() -> None:
    text = """# -Xlog:gc stays where it is a comment
-Xmx64m -Xlog:gc*:file="/var/log/a b.log":time:filecount=3 -XX:+UseG1GC   # why
"-javaagent:/opt/my agent.jar=7070" -Dx="-Xlog:y"
-Dcom.sun.management.jmxremote.port=9017 -Dcom.sun.faces=1 -agentlib:jdwp=transport=dt_socket,address=9017\r
-XX:StartFlightRecording=filename=/x -XX:+UnlockDiagnosticVMOptions -XX:+LogVMOutput -XX:LogFile=/y
-XX:ParallelGCThreads=2"""
    checked = codec_of("jvm").for_check(text)
    assert checked.splitlines()[0] == text.splitlines()[0]
    assert [line.split() for line in checked.splitlines()[1:]] == [
        ["-Xmx64m", "-XX:+UseG1GC", "#", "why"],
        ['-Dx="-Xlog:y"'],
        ["-Dcom.sun.faces=1"],
        ["-XX:+UnlockDiagnosticVMOptions"],
        ["-XX:ParallelGCThreads=2"],
    ]
    assert codec_of("yaml").for_check("a: -Xlog:gc\n") == "a: -Xlog:gc\n"


def test_two_collectors_at_once_are_refused() -> None:
    with pytest.raises(CodecError, match="comes 2 times"):
        codec_of("jvm").find("-XX:+UseG1GC -XX:+UseZGC\n", "-XX:Use*GC")


BARE = "# sizes\ncaches:\n  keys:   # computed\n  rows: 1\ncounters:\nlast: x\n"


@pytest.mark.parametrize("mark", ["\ufeff", "\xef\xbb\xbf"], ids=["one character", "three bytes"])
@pytest.mark.parametrize(
    ("text", "address"),
    [("a: 1\nb: 2\n", "a"), ("a:\n  b: 1\n", "a.b"), ("--- # top\na: 1\n", "a"), ("# top\na: 1\n", "a")],
)
def test_the_mark_of_the_byte_order_is_kept_and_no_part_of_a_key(mark: str, text: str, address: str) -> None:
    codec = YamlLines()
    found = codec.find(mark + text, address)
    assert found is not None
    assert (found.value, found.line) == ("1", text[: text.index("1")].count("\n") + 1)
    assert codec.write(mark + text, {address: "3", "new": "4"}) == mark + codec.write(text, {address: "3", "new": "4"})
    assert codec.write(mark + text, {address: None}) == mark + codec.write(text, {address: None})


def test_a_key_without_a_value_is_given_one_and_loses_it_again() -> None:
    """As cassandra.yaml has key_cache_size, which the node computes then."""
    codec = YamlLines()
    assert [codec.is_bare(BARE, address) for address in ("caches.keys", "counters", "caches", "last", "none")] == [
        True, True, False, False, False
    ]  # fmt: skip
    text = codec.write(BARE, {"caches.keys": "5", "counters": "7", "more": "1"})
    assert text == "# sizes\ncaches:\n  keys: 5   # computed\n  rows: 1\ncounters: 7\nlast: x\nmore: 1\n"
    ours = {"caches.keys": ["5"], "counters": ["7"], "more": ["1"]}
    assert codec.withdraw(text, BARE, ours) == BARE
    theirs = text.replace("counters: 7", "counters: 9") + "theirs: 2\n"
    assert codec.withdraw(theirs, BARE, ours) == BARE.replace("counters:", "counters: 9") + "theirs: 2\n"
    windows = BARE.replace("\n", "\r\n")
    assert codec.withdraw(codec.write(windows, {"counters": "7"}), windows, {"counters": ["7"]}) == windows
