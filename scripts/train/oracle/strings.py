"""The 200 strings of the tokenizer oracle: what people type, what they paste, and what breaks tokenizers."""

PLAIN = [
    "", " ", "  ", "   ", "\t", "\n", "\n\n", "\r\n", " \n", "\n ", "a", " a", "a ", " a ", "  a  b  ", "Hello", "Hello world",
    "Hello, world!", "The quick brown fox jumps over the lazy dog.", "What shall we eat?", "I'd rather wait; they'll thank you.",
    "IT'S NOT MINE, IT'S YOURS", "don't can't won't I've you're he'd", "don’t “quote” me — ever…", "one\ntwo\nthree", "one\r\ntwo\rthree",
    "line one\n\nline two\n\n\nline three\n", "  indented\n    more\n\tby tab\n", "trailing spaces   \nand more   ", "a.b.c...d....e",
    "end of sentence .Next one", "Hello , world ! How are you ?", "CamelCaseAndSnake_case-and-kebab", "UPPER lower MiXeD", "x" * 60,
    "ab" * 30, "-" * 40, "=" * 33 + "\n", "." * 20, "!" * 9, "#" * 7 + " heading", " " * 17, " " * 64 + "x", "x" + " " * 31 + "y",
    "\t" * 9, "\t\t mixed \t tabs\t", "\n" * 12, "a\tb\tc\td", "col1\tcol2\t\tcol4\n1\t2\t\t4\n",
]
NUMBERS = [
    "0", "12", "123", "1234", "12345678901234567890", "3.14159", "-273.15°C", "1,024 and 4.096,00", "2024-11-30T23:59:59.123Z",
    "0x7fffffff 0b1010 1e-9", "100%", "$19.99 €5 £3 ¥100", "1/2 ½ ⅓ ²³", "١٢٣٤٥", "४५६", "Ⅷ ⅻ", "v1.2.3-rc.4+build.5", "+1 (555) 010-9999",
]
CODE = [
    "def f(x):\n    return x ** 2\n", "for (let i = 0; i < n; i++) { total += a[i] }", "if (a && b || !c) { return null; }",
    "SELECT * FROM jobs WHERE state = 'queued' ORDER BY id LIMIT 10;", '{"key": [1, 2.5, null, true], "s": "a\\nb"}', "<div class=\"x\">&amp;</div>",
    "#!/bin/sh\nset -eu\necho \"$HOME\" | sed 's/a/b/g'\n", "C:\\Users\\name\\file.txt", "/usr/local/lib/libfoo.so.1.2", "https://example.org/a/b?q=1&r=%20#frag",
    "user@example.org", "```python\nprint('hi')\n```", "| a | b |\n|---|---|\n| 1 | 2 |", "$\\frac{a}{b} = \\sum_{i=0}^{n} x_i^2$", "a<b>c</b>",
    "// comment\n/* block */", "\\n is not a newline", "%s %d {} {{}} ${x}", "x = y != z >= w <= v -> u => t",
]
SCRIPTS = [
    "Straße, Größe, Übung, ÄÖÜ", "Où êtes-vous ? Ça va ! L'été.", "¿Qué tal? ¡Muy bien!", "Žluťoučký kůň úpěl ďábelské ódy", "İstanbul'da ılık ışık",
    "Сторож зажигал лампу каждый вечер", "ПРИВЕТ, МИР", "Καλημέρα κόσμε", "שלום עולם", "مرحبا بالعالم", "كان حارس المنارة، يضيء المصباح.",
    "English עברית English العربية mixed", "\u202bright to left\u202c", "नमस्ते दुनिया", "ক্ষমতা বাংলা", "ไทยไม่มีช่องว่าง", "தமிழ்", "မြန်မာ", "ខ្មែរ", "한국어 문장입니다.",
    "등대지기는 매일 저녁", "각", "灯塔的看守人每天晚上点亮灯。", "我们吃什么？", "日本語の文章です。", "カタカナとひらがなと漢字", "ｆｕｌｌｗｉｄｔｈ　ＡＢＣ１２３", "㍿㌔㎏", "繁體中文，測試！",
    "中文English混合123", "𠮷野家", "𝔘𝔫𝔦𝔠𝔬𝔡𝔢 𝓂𝒶𝓉𝒽", "Ελληνικά και Latin", "ქართული ენა", "Հայերեն", "ᏣᎳᎩ", "አማርኛ", "Tiếng Việt có dấu",
]
EMOJI = [
    "😀", "😀😃😄", "Hello 😀 world", "👍🏽", "👩‍💻", "👨‍👩‍👧‍👦", "🏳️‍🌈", "🇩🇪🇫🇷🇯🇵", "❤️", "❤", "☃️ snow", "1️⃣2️⃣", "🤷🏻‍♀️ who knows", "a😀b😀c",
    "😀 " * 5, "🧑🏿‍🚀🚀", "✨🎉", "™©®", "→ ← ⇒ ∀ ∃ ∈ ≠ ≤", "▁▂▃▄▅▆▇█", "♠♣♥♦", "🫠🪿",
]
COMBINING = [
    "e\u0301", "\u00e9", "cafe\u0301 caf\u00e9", "A\u030a \u00c5 \u212b", "n\u0303 ñ", "\u1e9b\u0323", "o\u0302\u0301 ộ", "Z\u0351\u036b\u0343a\u0363\u0352l\u0300g\u0301o", "\u0301 alone",
    "ﬁ ﬂ ﬀ", "\u1100\u1161\u11a8", "i\u0307 İ", "\u0915\u094d\u0937", "שָׁלוֹם", "Å\u0327", "q\u0307\u0323 q\u0323\u0307",
]
CONTROL = [
    "\u0000", "a\u0000b", "\u0001\u0002\u001f", "\u007f", "\u0080\u009f", "\u00a0nbsp\u00a0", "\u00adsoft\u00adhyphen", "\u200b", "zero\u200bwidth\u200djoin\u200cnon",
    "\ufeffbom", "\u2028line\u2029para", "\u0085next", "\u3000ideographic\u3000", "\u2003em\u2009thin", "\ufffd", "\u000b\u000c", "\u001b[31mred\u001b[0m",
    "\U000e0041tag", "\uf8ff\ue000", "\U0010ffff",
]
LOOKALIKES = [
    "<s>", "</s>", "<s>Hello</s>", "<unk>", " <s> x </s> ", "<|im_start|>", "<|im_end|>", "<|im_start|>user\nhi<|im_end|>\n", "<|im_start|", "<|endoftext|>",
    "<|begin_of_text|>", "<|eot_id|>", "x<|eot_id|>y", "<|start_header_id|>user<|end_header_id|>\n\n", "[INST] hi [/INST]", "[INST]hi[/INST] yes", "<0x0A>", "<0xE2><0x96>",
]

STRINGS = [*PLAIN, *NUMBERS, *CODE, *SCRIPTS, *EMOJI, *COMBINING, *CONTROL, *LOOKALIKES]
