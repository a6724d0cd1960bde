"""Templates: found by name and version, read with their header, kept from everything but rubric and item."""

from __future__ import annotations

import contextlib
import hashlib
import os
import pickle
import tracemalloc
import warnings

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from evalkit.errors import RubricError
from evalkit.rubrics import Rubric, build_prompt
from evalkit.rubrics import template_sandbox as sandbox
from evalkit.rubrics.prompt_builder import PromptBuilder, Template, list_templates, load_template

HEADER = "{#- evalkit\nform: json\n-#}\n"
SHOWN = "{{ fence('question') }} {{ fence('answer') }}"
ITEM = {"question": "why?", "answer": "so"}
RUBRIC = Rubric(id="r", inputs=["question", "answer"], criteria=[{"name": "c", "scale": {0: "no", 1: "yes"}}])


def rendered(source: str, rubric: Rubric = RUBRIC, item: dict[str, object] | None = None) -> str:
    builder = PromptBuilder.of(rubric, Template.of("t", "v1", HEADER + source))
    return str(builder.prompt(rubric.criteria[0], ITEM if item is None else item))


@pytest.fixture
def folder(tmp_path, monkeypatch):
    (tmp_path / "templates").mkdir()
    monkeypatch.setenv("EVALKIT_RUBRICS", str(tmp_path))

    def put(name: str, version: int, source: str) -> None:
        place = tmp_path / "templates" / name
        place.mkdir(exist_ok=True)
        (place / f"v{version}.jinja").write_text(source, encoding="utf-8")

    return put


class TestLookUp:
    def test_newest_and_named_version(self, folder):
        for version in (1, 2, 10):
            folder("mine", version, HEADER + f"{version}")
        assert load_template("mine").version == "v10"
        assert load_template("mine@v2").label == "mine@v2"
        assert {"mine@v1", "mine@v2", "mine@v10", "default@v1"} <= set(list_templates())

    def test_a_folder_of_ones_own_comes_first(self, folder):
        folder("default", 1, HEADER + SHOWN)
        assert load_template("default@v1").source == HEADER + SHOWN

    def test_an_edited_file_of_the_same_time_and_size_is_read_again(self, folder, tmp_path):
        path = tmp_path / "templates" / "mine" / "v1.jinja"
        for word in ("one", "two"):
            folder("mine", 1, HEADER + word)
            os.utime(path, ns=(10**18, 10**18))  # as of two writings within a tick of the clock
            assert load_template("mine").source == HEADER + word

    @pytest.mark.parametrize("name", ["nothing", "default@v9"])
    def test_missing_lists_what_is_there(self, name):
        with pytest.raises(
            RubricError, match=rf"template '{name}' not found; available: .*'default@v1'.*\(searched .*templates"
        ):
            load_template(name)

    @pytest.mark.parametrize("name", ["../default", "Default", "default@1", "default@v0", "", "a/b"])
    def test_bad_names(self, name):
        with pytest.raises(RubricError, match="invalid template name"):
            load_template(name)

    def test_a_file_that_is_no_text(self, folder, tmp_path):
        folder("mine", 1, "")
        (tmp_path / "templates" / "mine" / "v1.jinja").write_bytes(b"\xff\xfe")
        with pytest.raises(RubricError, match=r"v1\.jinja is not UTF-8 text"):
            load_template("mine")


class TestHeader:
    def test_hash_is_that_of_the_source_with_plain_line_ends(self):
        made = Template.of("t", "v1", HEADER + "x\r\ny")
        assert made.hash == hashlib.sha256((HEADER + "x\ny").encode()).hexdigest()
        assert pickle.loads(pickle.dumps(made)) == made

    @pytest.mark.parametrize(
        ("source", "message"),
        [
            ("no header", "t@v1: the header is missing; a template starts with"),
            ("{# evalkit\nfrom: json\n#}", "unknown reply form ''; allowed: json"),
            (
                "{# evalkit\ndescription: x\n#}",
                "unknown reply form ''; allowed: json, tagged, number, label, decision, regex",
            ),
            ("{# evalkit\nform: json\nfrom: x\n#}", "unknown header key 'from'; allowed: form, description"),
            ("{# evalkit\nform: xml\n#}", "unknown reply form 'xml'"),
            ("{# evalkit\nform\n#}", "unknown reply form ''"),
            ("{# evalkit\nform: json\nform: tagged\n#}", "names a key twice"),
            ("{# evalkit\nform: regex:(\n#}", "'regex:\\(' is not a valid regular expression"),
        ],
    )
    def test_faults(self, source, message):
        with pytest.raises(RubricError, match=message):
            Template.of("t", "v1", source)

    def test_regex_may_hold_colons(self):
        assert (
            Template.of("t", "v1", r"{# evalkit" "\n" r"form: regex:Score: (\d+)" "\n#}").form == r"regex:Score: (\d+)"
        )


class TestBlocks:
    def test_without_blocks_it_is_one_message(self):
        builder = PromptBuilder.of(RUBRIC, Template.of("t", "v1", HEADER + SHOWN))
        prompt = builder.prompt(RUBRIC.criteria[0], ITEM)
        assert [message.role for message in prompt.messages] == ["user"]

    @pytest.mark.parametrize(
        ("source", "message"),
        [
            ("{% block user %}x{% endblock %}" + SHOWN, "text or settings outside the template's blocks"),
            ("{% block taks %}x{% endblock %}" + SHOWN, "the blocks taks cannot be combined; use either 'user'"),
            ("{% block task %}" + SHOWN + "{% endblock %}", "the blocks task cannot be combined"),
            ("{% block user %}{% endblock %}{% block task %}{% endblock %}{% block item %}" + SHOWN + "{% endblock %}",
             "cannot be combined"),
            ("{% block task %}{% block closing %}x{% endblock %}{% endblock %}{% block item %}" + SHOWN
             + "{% endblock %}", "a block inside another block would be sent twice"),
            ("{% set n = 1 %}{% block user %}" + SHOWN + "{% endblock %}", "outside the template's blocks"),
        ],
    )  # fmt: skip
    def test_faults(self, source, message):
        with pytest.raises(RubricError, match=message):
            rendered(source)

    def test_layout(self):
        blocks = "".join(
            f"{{% block {name} %}}{text}{{% endblock %}}\n"
            for name, text in (("task", "TASK"), ("item", SHOWN), ("closing", "CLOSE"))
        )
        first, last = rendered(blocks), rendered(blocks, RUBRIC.edit(layout="item_first"))
        assert first.index("TASK") < first.index("why?") < first.index("CLOSE")
        assert last.index("why?") < last.index("TASK") < last.index("CLOSE")

    def test_each_item_gets_its_own_texts_from_one_asking(self):
        # the block `task` shows an input here, `closing` shows none
        source = (
            "{% block task %}T {{ fence('question') }}{% endblock %}{% block item %}{{ fence('answer') }}{% endblock %}"
            "{% block closing %}{{ criterion.name }} {{ rubric.inputs|join(' ') }}{% endblock %}"
        )
        builder = PromptBuilder.of(RUBRIC.edit(inputs=["question?", "answer"]), Template.of("t", "v1", HEADER + source))
        items = [{"question": "q1", "answer": "a1"}, {"question": "q2", "answer": "a2"}, {"answer": "a3"}]
        texts = [builder.prompt(builder.rubric.criteria[0], item).messages[0].content for item in items * 2]
        assert texts[:3] == texts[3:]
        for text, item in zip(texts, items, strict=False):
            shown = {word for word in ("q1", "q2", "a1", "a2", "a3") if f"\n{word}\n" in text}
            assert shown == set(item.values())
            assert text.endswith("c " + " ".join(item))

    def test_a_block_cannot_call_another(self):
        source = "{% block task %}{{ self.item() }}{% endblock %}{% block item %}" + SHOWN + "{% endblock %}"
        with pytest.raises(RubricError, match="'item' cannot be called"):
            rendered(source)

    def test_a_text_that_is_set_works_where_it_is_used(self):
        assert "so so" in rendered(SHOWN + "{% set twice %}{{ answer }} {{ answer }}{% endset %}{{ twice }}")


class TestWhatItSees:
    def test_unused_input(self):
        with pytest.raises(
            RubricError, match=r"does not show the input 'answer' of the rubric; .*choose another template"
        ):
            rendered("{{ fence('question') }}")

    def test_looking_whether_an_input_is_there_is_not_using_it(self):
        with pytest.raises(RubricError, match="does not show the input 'answer'"):
            rendered("{{ fence('question') }}{% if 'answer' in rubric.inputs %}x{% endif %}")

    def test_going_over_all_inputs_uses_them(self):
        assert "so" in rendered("{% for name in rubric.inputs %}{{ fence(name) }}{% endfor %}")

    @pytest.mark.parametrize(
        "source",
        ["{{ anwser }}", "{{ cycler }}", "{{ namespace }}", "{{ item_id }}"],
    )  # fmt: skip
    def test_an_undeclared_name(self, source):
        with pytest.raises(RubricError, match=r"which is not available to it; available: rubric, criterion, fence"):
            rendered(SHOWN + source)

    def test_fencing_what_is_no_input(self):
        with pytest.raises(RubricError, match=r"calls fence\('nope'\), but the rubric has no input of this name"):
            rendered(SHOWN + "{% set name = 'nope' %}{{ fence(name) }}")

    @pytest.mark.parametrize("how", ["include 'x'", "import 'x' as x", "from 'x' import y", "extends 'x'"])
    def test_another_template(self, how):
        with pytest.raises(RubricError, match=r"line 4: '[a-z]+' is not allowed; allowed tags: "):
            rendered(SHOWN + "{% " + how + " %}")

    @pytest.mark.parametrize("field", ["pass_at", "weight", "critical", "better", "scale.codes"])
    def test_what_can_never_reach_a_prompt(self, field):
        # the prompt hash leaves these out, so a template must not see them
        with pytest.raises(RubricError, match="has no attribute"):
            rendered(SHOWN + "{{ criterion." + field + " }}")

    @pytest.mark.parametrize("field", ["id", "version", "layout", "template"])
    def test_what_of_the_rubric_can_never_reach_a_prompt(self, field):
        with pytest.raises(RubricError, match="has no attribute"):
            rendered(SHOWN + "{{ rubric." + field + " }}")

    def test_a_key_of_an_input_takes_no_methods_place(self):
        item = ITEM | {"answer": {"items": "so", "title": "as"}}
        assert rendered(SHOWN + "{{ answer['items'] }} {{ answer.title }}", item=item).endswith("so as")
        with pytest.raises(RubricError, match="cannot print a value of type builtin_function_or_method"):
            rendered(SHOWN + "{{ answer.items }}", item=item)

    @pytest.mark.parametrize("name", ["rubric.items", "criterion.values", "criterion.scale[0].keys"])
    def test_rubric_and_criterion_are_no_mappings(self, name):
        with pytest.raises(RubricError, match="has no attribute"):
            rendered(SHOWN + "{{ " + name + " }}")


class TestSandbox:
    @pytest.mark.parametrize(
        "source",
        [
            "{{ ''.__class__.__mro__ }}", "{{ rubric.__init__ }}", "{{ rubric.__init__.__globals__ }}",
            "{{ fence.__globals__ }}", "{{ fence.__closure__ }}", "{{ criterion.__class__ }}",
            "{{ ()|attr('__class__') }}", "{{ '{0.__class__}'.format(1) }}", "{{ ['__class__']|map('attr') }}",
            "{{ rubric['__class__'] }}", "{{ self._TemplateReference__context }}", "{{ self }}", "{{ fence }}",
            "{{ rubric }}", "{{ answer.encode }}", "{{ criterion.steps }}",
        ],
    )  # fmt: skip
    def test_escapes_and_things_that_are_no_text(self, source):
        with pytest.raises(RubricError, match="template t@v1"):
            rendered(SHOWN + source)

    def test_chance(self):
        # the reply's key holds the template's hash, not what it rendered to
        with pytest.raises(RubricError, match="unknown filter 'random'; allowed: abs, "):
            rendered(SHOWN + "{{ [1, 2, 3]|random }}")

    def test_faults_while_rendering_are_told(self):
        for source in ("{{ 1 is divisibleby 0 }}", "{{ 'a'|abs }}", "{{ rubric.inputs[9] }}"):
            with pytest.raises(RubricError, match="template t@v1"):
                rendered(SHOWN + source)

    @pytest.mark.parametrize("part", ["3[1:]", "(3)[0]", "true[1:]", "none[:2]", "(-3)[1:]", "(3 == 3)[1:]"])
    def test_parts_of_what_has_none(self, part):
        with warnings.catch_warnings():
            warnings.simplefilter("error")  # Python would warn of such a constant in the compiled source
            with pytest.raises(RubricError, match="template t@v1"):
                rendered(SHOWN + "{{ " + part + " }}")

    def test_broken_syntax_names_the_line(self):
        with pytest.raises(RubricError, match="template t@v1, line 5"):
            rendered("one\n{% if %}" + SHOWN)

    def test_it_cannot_change_what_it_sees(self):
        with pytest.raises(RubricError):
            rendered(SHOWN + "{{ context.append('x') }}", item=ITEM)

    def test_common_tools_are_there(self):
        text = rendered(
            SHOWN + "{{ 'a_b'|replace('_', ' ')|title }} {{ criterion.scale|map(attribute='code')|join(' | ') }} "
            "{{ criterion.name|upper }}"
        )
        assert text.endswith("A B 0 | 1 C")


DOUBLED = "{% set x = answer %}" + 60 * "{% set x = WORD %}" + "{{ x }}"


class TestBounds:
    """A template makes no more than a fixed multiple of what it is given; each line here once filled the memory."""

    @pytest.mark.parametrize(
        ("source", "message"),
        [
            ("{% set x = answer %}" + 60 * "{% set x %}{{ x }}{{ x }}{% endset %}" + "{{ x }}", "than the limit"),
            ("{% set x = answer %}" + 60 * "{% set x | upper %}{{ x }}{{ x }}{% endset %}", "than the limit"),
            (DOUBLED.replace("WORD", "x|replace('s', 'sss')"), "than the limit"),
            (DOUBLED.replace("WORD", "x|replace('', x)"), "than the limit"),
            (DOUBLED.replace("WORD", "x|list|join(x)"), "than the limit"),
            (4 * "{% for a in rubric.inputs|list|map('list')|first %}" + "{{ '" + 90_000 * "x" + "' }}"
             + 4 * "{% endfor %}", "than the limit"),
            ("{% set l = answer|replace('', 100000 * question) %}", "'\\*' is not allowed"),
            (DOUBLED.replace("WORD", "(x|tojson)"), "than the limit"),
            (DOUBLED.replace("WORD", "x|list|map('replace', 's', x)|join"), "than the limit"),
            ("{{ 'ssssssssss'" + 10 * "|replace('s', 'ssssssssss')" + " }}", "than the limit"),
            ("{% set x = [1, 1] %}" + 60 * "{% set x = [x, x] %}" + "{{ x|string }}", "may contain only constants"),
            ("{{ [answer, question]|join }}", "may contain only constants"),
            ("".join(f"{{% for a{n} in [1, 2, 3, 4] %}}" for n in range(9)) + "x" + 9 * "{% endfor %}", "4 loops"),
            (4 * "{% for a in 'abcdefghijklmno'|list %}" + "x" + 4 * "{% endfor %}", "than the limit"),
            ("{% for a in answer %}{{ a }}{% endfor %}", "a loop needs a list, .*got a str"),
            ("{% for a in rubric.inputs recursive %}{{ loop(a) }}{% endfor %}", "'loop' cannot be called"),
            ("{% macro m() %}x{% endmacro %}", "'macro' is not allowed; allowed tags: block, for"),
            ("{% filter upper %}x{% endfilter %}", "'filter' is not allowed"),
            ("{% autoescape true %}x{% endautoescape %}", "'scope' is not allowed"),
            ("{% macro m() %}{{ m() }}{{ m() }}{% endmacro %}{{ m() }}", "'m' cannot be called"),
            ("{{ lipsum() }}", "'lipsum' cannot be called"),
            (DOUBLED.replace("WORD", "x ~ x"), "'concat' is not allowed"),
            (DOUBLED.replace("WORD", "x + x"), r"'\+' is not allowed"),
            (DOUBLED.replace("WORD", "x.replace('', 'sss')"), "'replace' cannot be called"),
            ("{{ 1 // 0 }}", "'//' is not allowed"),
            ("{{ 'a' * 999999999 }}", r"'\*' is not allowed; .*operators: only comparisons, and, or, not"),
            ("{{ 9 ** 9 ** 9 }}", r"'\*\*' is not allowed"),
            ("{{ '%999999999d' % 1 }}", "'%' is not allowed"),
            ("{{ 'a'|center(999999999) }}", "unknown filter 'center'"),
            ("{{ 'a'.ljust(999999999) }}", "'ljust' cannot be called; only fence"),
            ("{{ [1]|tojson(999999999) }}", "takes 1 positional argument"),
            ("{{ 1|round(999999999, 'ceil') }}", "unknown filter 'round'"),
            ("{{ answer is filter }}", "unknown test 'filter'; allowed: boolean, "),
            ("{{ " + 5000 * "(" + "1" + 5000 * ")" + " }}", "cannot be read"),
            ("{{ " + 5000 * "1" + " }}", "cannot be read"),
            (99 * "{% if 1 %}" + "x" + 99 * "{% endif %}", "nested too deeply; allowed: 4 loops and 40"),
            ("{{ " + 99 * "not " + "1 }}", "nested too deeply"),
            ("x" * 100_001, "has 100,0.. characters; at most 100,000 are allowed"),
        ],
    )  # fmt: skip
    def test_bombs(self, source, message):
        with pytest.raises(RubricError, match=f"template t@v1.*{message}"):
            rendered(SHOWN + source)

    @pytest.mark.parametrize("word", ["x|replace('s', 'sss')", "x|list|join(x)"])
    def test_memory(self, word):
        tracemalloc.start()
        try:
            with pytest.raises(RubricError, match="than the limit"):
                rendered(SHOWN + DOUBLED.replace("WORD", word))
            assert tracemalloc.get_traced_memory()[1] < 64 << 20
        finally:
            tracemalloc.stop()

    def test_the_line_is_that_of_the_source(self):
        for source in ("{{ x }}", "{% macro a() %}{% endmacro %}", "{{ rubric.inputs[9] }}"):
            with pytest.raises(RubricError, match="template t@v1, line 7: "):
                rendered("one\n{% set x = fence %}\n" + SHOWN + "\n" + source + "\nlast")

    def test_what_a_long_item_needs_is_never_too_much(self):
        long = {"question": "why? " * 200_000, "answer": "so " * 300_000}
        text = rendered(
            SHOWN + "{% if 'so' in answer %}{{ answer|replace('so', 'thus')|trim|length }}{% endif %}", item=long
        )
        assert text.endswith(str(5 * 300_000 - 1))

    def test_a_long_list_of_passages_can_be_gone_over(self):
        rubric = RUBRIC.edit(inputs=["context", "answer"])
        source = (
            "{% for one in context %}{{ loop.index }}. {{ one }} [{{ one|length }}]\n{% endfor %}{{ fence('answer') }}"
        )
        text = rendered(
            source, rubric, {"context": ["a passage of forty characters, no more ."] * 5000, "answer": "so"}
        )
        assert "5000. a passage of forty characters, no more . [40]" in text


def _templates() -> st.SearchStrategy[str]:
    """Templates of the allowed grammar: everything that makes a text longer, in loops and in settings."""
    names = st.sampled_from(["answer", "question", "x", "y", "criterion.name"])
    constants = st.sampled_from(["'s'", "''", "'so '", "'abcdefgh'", "3"])
    lists = st.sampled_from(["context", "rubric.inputs", "criterion.scale|map(attribute='text')", "[1, 2, 3]",
                             "x|list", "answer|list", "'a b c'|list"])  # fmt: skip
    values = st.recursive(
        names | constants,
        lambda inner: st.one_of(
            st.tuples(inner, inner, inner).map(lambda three: "{}|string|replace({}, {})".format(*three)),
            st.tuples(lists, inner).map("|join({})".join).map(lambda text: text.replace("|join", "|join", 1)),
            st.tuples(inner, st.sampled_from(["upper", "tojson", "title", "list|join", "trim", "length"])).map(
                lambda pair: "({})|{}".format(*pair)
            ),
            inner.map("({})[1:]".format),
        ),
        max_leaves=6,
    )
    conditions = st.tuples(values, st.sampled_from(["==", "in", "<", "!="]), values).map(" ".join)
    plain = st.one_of(
        st.just("text "),
        values.map("{{{{ {} }}}}".format),
        st.tuples(st.sampled_from("xy"), values).map(lambda pair: "{{% set {} = {} %}}".format(*pair)),
        st.tuples(st.sampled_from("xy"), values, values).map(
            lambda three: "{{% set {} %}}{{{{ {} }}}}{{{{ {} }}}}{{% endset %}}".format(*three)
        ),
    )
    bodies = st.recursive(
        plain,
        lambda inner: st.one_of(
            st.lists(inner, max_size=5).map("".join),
            st.tuples(lists, inner).map(lambda pair: "{{% for y in {} %}}{}{{% endfor %}}".format(*pair)),
            st.tuples(conditions, inner).map(lambda pair: "{{% if {} %}}{}{{% endif %}}".format(*pair)),
        ),
        max_leaves=12,
    )
    return bodies.map(lambda body: "{% set x = answer %}{% set y = question %}" + body)


@settings(max_examples=40, deadline=None)
@given(source=_templates(), times=st.sampled_from([1, 4, 16]))
@pytest.mark.long
def test_what_the_allowed_grammar_makes_is_bounded(source: str, times: int) -> None:
    rubric = RUBRIC.edit(inputs=["question", "answer", "context"])
    item = {"question": "why? " * 20, "answer": "so it is " * 20, "context": ["a passage"] * 10}
    source = "{% for name in rubric.inputs %}{{ fence(name) }}{% endfor %}" + source * times
    if len(source) > 90_000:
        return
    given_ = sum(map(len, (*item.values(), source, HEADER))) + 1000  # the rubric's own texts are shorter than that
    limit = sandbox._WORK + sandbox.WORK_PER_CHARACTER * given_
    with contextlib.suppress(RubricError):  # nothing else is raised
        # every character shown was counted, but for the text between the constructs, which stands in the source
        assert len(rendered(source, rubric, item)) <= limit + len(source)


@settings(max_examples=30, deadline=None)
@given(source=_templates())
@pytest.mark.long
def test_a_block_that_was_rendered_before_reads_as_if_it_were_rendered_anew(source: str) -> None:
    fences = "{% for name in rubric.inputs %}{{ name }}: {{ fence(name) }}{% endfor %}"
    source = fences + source.removeprefix("{% set x = answer %}{% set y = question %}").replace("x", "'x'")
    texts = []
    for keep in (True, False):
        builder = PromptBuilder(RUBRIC, Template.of("t", "v1", HEADER + source))
        for n in range(3):
            try:
                prompt = builder.prompt(RUBRIC.criteria[0], {"question": f"why {n}?", "answer": "so\n" * n})
            except RubricError as problem:
                prompt = str(problem)
            texts.append(str(prompt))
            if not keep:
                builder = PromptBuilder(RUBRIC, Template.of("t", "v1", HEADER + source))
    assert texts[:3] == texts[3:]


@pytest.mark.parametrize(
    ("source", "short", "long"),
    [
        ("{{ fence('answer') | upper }}{{ fence('question') }}", "\nSSS\n", "\nSSSSSSSSSSSS\n"),
        (
            "{% set x %}{{ fence('answer') }}{% endset %}{{ x | replace('ss', 'z') }}{{ fence('question') }}",
            "zs",
            "z" * 6,
        ),
        ("{% set x = fence('answer') %}{{ x | length }} {{ fence('question') }}", "[user]\n48 <", "[user]\n57 <"),
        ("{% if fence('answer')|length > 50 %}++{% endif %}{{ fence('question') }}", "[user]\n<", "[user]\n++<"),
        ("{{ fence('answer') if fence('question') else '' }}", "\nsss\n", "\nssssssssssss\n"),
        ("{{ fence('answer')[22:34] }}{{ fence('question') }}", "sss\n</answer", "ssssssssss"),
    ],
)
def test_what_a_template_makes_of_fenced_text_is_made_of_the_text_of_each_item(source, short, long):
    builder = PromptBuilder(RUBRIC, Template.of("t", "v1", HEADER + source))
    for answer, expected in (("s" * 3, short), ("s" * 12, long), ("s" * 3, short)):
        assert expected in str(builder.prompt(RUBRIC.criteria[0], {"question": "why?", "answer": answer}))


def test_an_input_that_is_fenced_very_often_counts_each_time():
    source = "".join(f"{{% for {name} in rubric.inputs %}}" for name in "abcd")
    source += "{{ fence('answer') }}{{ fence('question') }}" * 8 + "{% endfor %}" * 4
    builder = PromptBuilder(RUBRIC, Template.of("t", "v1", HEADER + source))
    assert len(str(builder.prompt(RUBRIC.criteria[0], {"question": "a", "answer": "b"}))) > 1000
    with pytest.raises(RubricError, match="more characters than the limit"):
        builder.prompt(RUBRIC.criteria[0], {"question": "a", "answer": "b" * 100_000})


def test_an_optional_input_that_is_missing_is_an_error_only_where_it_is_shown():
    optional = RUBRIC.edit(inputs=["question?", "answer"])
    assert "so" in rendered(SHOWN, optional, {"answer": "so"})
    with pytest.raises(RubricError, match="'question' is undefined"):
        rendered("{{ question }} {{ fence('answer') }}", optional, {"answer": "so"})


def test_another_template_than_the_rubrics(folder):
    folder("mine", 1, HEADER + "MINE " + SHOWN)
    prompt = build_prompt(RUBRIC, ITEM, template="mine")
    assert prompt.template == "mine@v1"
    assert "MINE" in str(prompt)
