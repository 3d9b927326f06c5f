"""
Renders chat templates with the real transformers: python scripts/train/oracle/make_templates.py test/oracle/fixtures/templates

The folder holds templates written after those of six model families. `rendered.json` receives the conversations below and, by
template, the text that transformers renders for each, or null where it rejects the conversation. It also receives the
rendered snippets below.

JavaScript cannot tell 2.0 from 2 once a request is parsed, so no conversation holds a float without a fraction.
"""

import json
import sys
from pathlib import Path

import transformers
from chat import CASES, TOOLS, assistant, system, user
from transformers.utils.chat_template_utils import render_jinja_template

SPECIAL_TOKENS = {"bos_token": "<s>", "eos_token": "</s>"}


def call(arguments: object, content: object = "") -> dict:
    function = {"name": "set_mode", "arguments": arguments}
    return {"role": "assistant", "content": content, "tool_calls": [{"id": "call00001", "type": "function", "function": function}]}


def reply(content: object) -> dict:
    return {"role": "tool", "tool_call_id": "call00001", "name": "set_mode", "content": content}


MIXED = {"on": True, "off": False, "none": None, "list": [1, "two", True, None, []], "small": 0.00001, "half": 0.5, "text": "it's \"so\"\n\t\u00e9"}
CODE = "<think>\n    indented thought\n\n</think>\n\n    if warm:\n        cool()\n"

# (messages, tools, add_generation_prompt); 15 cases are shared with the fixtures of the tokenizers.
CONVERSATIONS = [
    *CASES,
    ([user("hi"), assistant(None), user("still there?")], None, True),
    ([user("Write code."), assistant(CODE)], None, False),
    ([user("one"), assistant(CODE), user("two"), {**assistant("\n  done"), "reasoning_content": "\n  short\n"}], None, True),
    ([user("Cool it."), call(MIXED), reply("ok")], TOOLS, True),
    ([user("Cool it."), call('{"mode": 1}', None), reply({"ok": True, "left": None})], TOOLS, True),
    ([user([{"type": "text", "text": "  in parts "}, {"type": "image"}]), assistant("seen")], None, True),
    ([system("\u0085\u001f tidy \ufeff"), user("\u2003wide\u3000"), assistant("\x1c end \x85")], None, True),
]
assert len(CONVERSATIONS) == 22


# Each is a template; the variables are VARIABLES.
SNIPPETS = [
    "{{ '  xxyx '.strip(' x') }}|{{ 'xxyx'.lstrip('x') }}|{{ 'xxyx'.rstrip('x') }}|{{ ' y '.strip() }}|{{ ' y '.strip(none) }}",
    "{{ nothing | trim }}|{{ missing | trim }}|{{ 5 | trim }}|{{ 'xyx' | trim('x') }}|{{ 'xyx' | trim(chars='x') }}",
    "{{ true }}|{{ nothing }}|{{ missing }}|{{ [true, nothing, 'a', \"it's\", 1.5] }}|{{ {'a': false} }}|{{ (1, 2) }}",
    "{{ 1.0 }}|{{ 0.00001 }}|{{ 15000000000000000.0 }}|{{ 100000.0 }}|{{ 7 // 2 }}|{{ 7 / 2 }}",
    "{{ ['\\n', '\\u00e9', '\\u200b', 'a\\\\b', '\"', \"'\\\"\"] }}",
    "{{ 'a' ~ true ~ nothing ~ missing ~ 1 ~ ['b'] }}",
    "{{ [1, true, nothing, 'a'] | join('-') }}|{{ [1, 2] | join }}|{{ 'abc' | join('.') }}|{{ [1] | string }}|{{ true | string }}",
    "{{ [{'a': 1}, {'a': none}] | join('-', attribute='a') }}|{{ [{'a': 'x'}] | join(attribute='a') }}",
    "{{ '1' == 1 }}|{{ 1 == 1.0 }}|{{ true == 1 }}|{{ nothing == missing }}|{{ [1, {'a': 2}] == [1, {'a': 2}] }}|{{ '' != 0 }}",
    "{{ nothing in ['a', none] }}|{{ [1] in [[1]] }}|{{ 'a' not in ['b'] }}|{{ 'a' in {'a': 1} }}|{{ 'b' in 'abc' }}",
    "{% for i in [1, 2, 3] %}{% if i == 1 %}{% set first = 'set' %}{% endif %}{{ first | default('unset') }} {% endfor %}",
    "{% for x in missing %}{{ x }}{% else %}empty{% endfor %}|{% for x in [1, 2, 3] if x != 2 %}{{ x }}{{ loop.length }}{% endfor %}",
    "{% for key, value in {'a': [1], 'b': none}.items() %}{{ key }}={{ value }};{% endfor %}",
    "{{ missing is iterable }}|{{ nothing is iterable }}|{{ {} is iterable }}|{{ 5 is not iterable }}|{{ nothing.name is defined }}",
    "{{ 'hELLO wORLD'.capitalize() }}|{{ 'hELLO' | capitalize }}|{{ 'a-b'.split('-')[1] }}",
    "{{ {'b': 1, 'a': [true, none, 'é']} | tojson }}|{{ {'b': 1, 'a': 2} | tojson(sort_keys=true) }}|{{ 'é\u2028' | tojson(ensure_ascii=true) }}",
    "{{ {'a': [], 'b': [1, {}]} | tojson(indent=2) }}|{{ {'a': [1, 2]} | tojson(separators=(',', ':')) }}",
    "{% macro add(a, b=2) %}{{ a + b }}{% endmacro %}{{ add(1) }}{{ add(1, b=5) }}",
    "{{ missing.name }}",
    "{{ missing | tojson }}",
    "{{ 'a' + nothing }}",
    "{{ 'a' + 1 }}",
    "{{ 1 + 'a' }}",
]
VARIABLES = {"nothing": None}


def render_snippet(template: str) -> str | None:
    try:
        return render_jinja_template([[]], chat_template=template, **VARIABLES)[0][0]
    except Exception as error:
        print(f"  refused: {template}: {type(error).__name__}: {error}")
        return None


def render(template: str, messages: list, tools: list | None, add_generation_prompt: bool) -> str | None:
    try:
        rendered, _ = render_jinja_template([messages], tools=tools, chat_template=template, add_generation_prompt=add_generation_prompt, **SPECIAL_TOKENS)
    except Exception as error:
        print(f"  refused: {type(error).__name__}: {error}")
        return None
    return rendered[0]


def main(folder: Path) -> None:
    rendered = {}
    for path in sorted(folder.glob("*.jinja")):
        print(path.stem)
        rendered[path.stem] = [render(path.read_text(encoding="utf-8"), *case) for case in CONVERSATIONS]
    names = ("messages", "tools", "addGenerationPrompt")
    conversations = [dict(zip(names, case, strict=True)) for case in CONVERSATIONS]
    result = {"versions": {"transformers": transformers.__version__}, "conversations": conversations, "rendered": rendered}
    result["snippets"] = {snippet: render_snippet(snippet) for snippet in SNIPPETS}
    (folder / "rendered.json").write_text(json.dumps(result, ensure_ascii=True, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main(Path(sys.argv[1]))
