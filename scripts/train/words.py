"""Words and sentences of English text: word lists and splitters for sketches and ROUGE-1.

There is no part-of-speech tagger: closed word classes are lists, verbs are recognised by endings and a list of common forms.
"""

import re
from itertools import pairwise

# Closed classes: articles, pronouns, prepositions, conjunctions, auxiliaries, and the pieces of split contractions.
FUNCTION_WORDS = frozenset(
    """a an the this that these those such same other another each every either neither both all any some many much more most
    few less least several own one ones i me my mine myself we us our ours ourselves you your yours yourself he him his himself
    she her hers herself it its itself they them their theirs themselves who whom whose which what where when why how whether
    of in on at by for from to with without within into onto upon over under above below between among amongst through
    during before after since until till about against toward towards around across along behind beside besides beyond off out
    up down near away back and or but nor so yet if then than as because while though although unless however therefore thus
    hence be am is are was were been being do does did doing done have has had having will would shall should can could may
    might must ought let there here also too just only even still again once ever very quite rather really almost already
    soon now oh ah well please okay ok hey hi hello i'm i've i'd i'll you're you've you'd you'll he's he'd he'll she's she'd
    she'll it's it'd it'll we're we've we'd we'll they're they've they'd they'll that's there's here's what's who's where's
    let's thereupon whereupon d ll m re s t ve""".split()
)
NEGATIONS = frozenset(
    """no not never none nothing nobody nowhere yes cannot can't don't doesn't didn't won't wouldn't isn't aren't wasn't
    weren't haven't hasn't hadn't couldn't shouldn't mustn't""".split()
)
# Content words that carry little: common adverbs, degree words, light adjectives. Adverbs in -ly join them by their ending.
WEAK_WORDS = frozenset(
    """actually always often sometimes perhaps maybe later together alone far long little big small
    great good nice old young new fine pretty fair beautiful whole first last next own certain sure kind sort lot bit
    thing things something anything everything someone anyone everyone way ways time times day days much further forth
    indeed instead else meanwhile afterwards presently like right able""".split()
)
COMMON_VERBS = frozenset(
    """add ask ate be became become began begin believe bit blew book bought bring broke brought build built buy call came cancel carry
    catch caught check choose chose climb come confirm cost cried cry cut dance die do draw drank drew drink drive drove eat fall fed feed
    feel fell felt fight find flew fly follow forgot fought found gave get give go goes got grew grow hang hear heard held
    help hid hide hit hold hung hurt keep kept killed kiss knew know laid lay lead leave led left lend lie like listen live
    look lose lost love made make marry mean meet met move need open paid pass pay play pull put ran read reserve rest
    ride rise rode rose run said sang sank sat save saw say says search see seek seem sell send sent set shine shone shook
    shot show shut sing sit sleep slept sold sought speak spent spoke stand stay steal stole stood stop strike struck swam
    take talk taught tell think thought threw throw told took travel tried try turn use visit wait wake walk want watch
    wear went wept win wish woke won wore work write wrote""".split()
)
VERB_ENDING = re.compile(r"[a-z]{2,}(?:ed|ing)$")
WORD = re.compile(r"\d+(?:[.,:/-]\d+)*[a-z]{0,2}\b|\d+|[^\W\d_]+(?:['’][^\W\d_]+)*")
ABBREVIATION = re.compile(r"\b(?:Mr|Mrs|Ms|Dr|St|Sr|Jr|vs|No|Mt|[A-Z]|a\.m|p\.m)\.$")
SENTENCE_END = re.compile(r"""[.!?…]["'”’)\]]*$""")
# An opening quote, bracket or capital starts a sentence; a lower-case word goes on with the last one ("Stop!" said he).
SENTENCE_START = re.compile(r"""["'“‘(\[]*[A-Z0-9]""")


def words_of(text: str) -> list[str]:
    """The text's words and numbers in order, as written; a typographic apostrophe becomes a plain one."""
    return [word.replace("’", "'") for word in WORD.findall(text)]


def is_content(word: str) -> bool:
    """Whether a word carries content: no function word; names, numbers, verbs and negations do."""
    return word.lower() not in FUNCTION_WORDS


def is_verb(word: str) -> bool:
    """A guess from the form alone."""
    lower = word.lower()
    return lower in COMMON_VERBS or bool(VERB_ENDING.fullmatch(lower))


def split_sentences(text: str) -> list[str]:
    """The sentences of a text, white space between words made single; joined by spaces they are the text again."""
    pieces = text.split()
    sentences: list[str] = []
    start = 0
    for end, (last, first) in enumerate(pairwise(pieces), 1):
        if SENTENCE_END.search(last) and SENTENCE_START.match(first) and not ABBREVIATION.search(last):
            sentences.append(" ".join(pieces[start:end]))
            start = end
    return [*sentences, " ".join(pieces[start:])] if pieces else []
