import { isFence, isIntroduction, markLength } from './reply.ts'

/** All that is taken out of a reply; what is left is the expansion of its line, character by character. */
export const expansionRules = {
  reasoning: 'what a model writes between <think> and </think>',
  excess: 'text beyond 16,384 characters, which is a loop',
  fence: 'lines that begin or end a block of code',
  blank: 'lines without a letter or digit',
  mark: 'bullets, numbers and labels before the text: the join writes those of the sketch',
  bold: 'bold type of the whole text, or without an end',
  introduction: 'announcements such as "Here is the full sentence:"',
  echo: 'the line itself before its expansion',
  title: 'the bold title of the line, which the join writes',
  'other lines': 'paragraphs with fewer words of the line',
  'other sentences': 'of more sentences than a line has, all but the two with most of its words',
  cut: 'the beginning of a sentence that the length limit cut',
  space: 'white space around the text',
} as const

export type ExpansionRule = keyof typeof expansionRules

/** The text that writes out a line, and where the rest of the reply went. */
export interface CleanExpansion {
  readonly text: string
  /** The whole reply, in order; without a rule: part of the text. */
  readonly pieces: readonly { readonly text: string; readonly rule?: ExpansionRule }[]
  /** Whether the text goes to the end of the reply: if the reply was cut, so was the text. */
  readonly reachesEnd: boolean
}

/** A line stands for one sentence, which may become two; a model that writes more than so many has left its line. */
const moreSentences = 2

const maxChars = 16_384

/**
 * The part of a reply that writes out `line`, because a model may write more than it was asked for: an introduction, the line itself,
 * a number, the next lines or the whole answer. Of several paragraphs it is the first of those with most words of the line, of many
 * sentences the two from the one with most. '' only where the reply has no letters or digits, or announces a text that does not come.
 * @param line key words. @param title of the line, as plain text; the text is without it
 */
export function cleanExpansion(reply: string, line: string, title = ''): CleanExpansion {
  const removal = new Removal(reply)
  const text = removal.visible
  const keepsMark = /^\W*\d/.test(line)
  const paragraphs = spansOf(text, /[^\r\n]+/g).filter((span) => {
    const rule = isFence(textAt(span)) ? 'fence' : /[\p{L}\p{N}]/u.test(textAt(span)) ? undefined : 'blank'
    if (rule) removal.mark(span, rule)
    return rule === undefined
  })
  // A number belongs to the text where the line begins with it.
  const unmarked = paragraphs.map((span) => {
    const inner = trimmed(span)
    if (keepsMark) return inner
    const start = inner.from + markLength(textAt(inner))
    removal.mark({ from: inner.from, to: start }, 'mark')
    return unwrapped({ from: start, to: inner.to })
  })
  const announcing = unmarked.map((span) => isIntroduction(textAt(span)))
  const told = unmarked
    .filter((_, at) => !announcing[at])
    .map(withoutIntroduction)
    .map(withoutEcho)
  const wanted = wordsOf(line)
  const written = told.filter((span) => !isSame(textAt(span), line))
  const chosen = bestOf(written, wanted) ?? told[0]
  for (const [at, span] of unmarked.entries()) {
    if (chosen && span.from <= chosen.from && chosen.to <= span.to) continue
    removal.mark(span, announcing[at] ? 'introduction' : isSame(textAt(span), line) ? 'echo' : 'other lines')
  }
  const kept = chosen && withoutTitle(fewSentences(chosen))
  return removal.cleaned(kept)

  function textAt({ from, to }: Span): string {
    return text.slice(from, to)
  }

  function trimmed({ from, to }: Span): Span {
    const own = text.slice(from, to)
    return { from: from + own.length - own.trimStart().length, to: to - (own.length - own.trimEnd().length) }
  }

  /** Bold type around all of it, and one that does not end. */
  function unwrapped(span: Span): Span {
    const own = textAt(span)
    const bolds = [...own.matchAll(/\*\*/g)].map(({ index }) => index)
    const isWhole = bolds.length === 2 && bolds[0] === 0 && bolds[1] === own.length - 2
    const loose = isWhole ? bolds : bolds.length % 2 === 1 ? bolds.slice(-1) : []
    for (const at of loose) removal.mark({ from: span.from + at, to: span.from + at + 2 }, 'bold')
    if (isWhole) return trimmed({ from: span.from + 2, to: span.to - 2 })
    if (loose[0] === 0) return trimmed({ from: span.from + 2, to: span.to })
    return loose[0] === own.length - 2 ? trimmed({ from: span.from, to: span.to - 2 }) : span
  }

  /** As in `Here is the full sentence: "…"`. */
  function withoutIntroduction(span: Span): Span {
    const own = textAt(span)
    const announced =
      /^(?:sure[,.!:]?\s*)?here(?:['’]s| is| are)\b[^:]{0,60}\b(?:sentences?|line|answer|expansion):\s*(?=\S)/is.exec(own)
    if (!announced) return span
    const isQuoted = /^["“].*["”]$/s.test(own.slice(announced[0].length)) && own.length - announced[0].length > 2
    const rest = { from: span.from + announced[0].length + (isQuoted ? 1 : 0), to: span.to - (isQuoted ? 1 : 0) }
    removal.mark({ from: span.from, to: rest.from }, 'introduction')
    removal.mark({ from: rest.to, to: span.to }, 'introduction')
    return rest
  }

  /** As in "vitamins, immune system: Vitamins help …". */
  function withoutEcho(span: Span): Span {
    const own = textAt(span)
    const echo = line.replace(/[\s.:;,]+$/, '')
    if (echo === '' || !own.toLowerCase().startsWith(echo.toLowerCase())) return span
    return withoutPrefix(span, echo.length, 'echo')
  }

  function withoutTitle(span: Span): Span {
    const own = textAt(span)
    const bare = title.replace(/[\s.:：。–—-]+$/, '')
    const opened = /^(?:\*\*|__)?/.exec(own)![0].length
    if (bare === '' || !own.slice(opened).toLowerCase().startsWith(bare.toLowerCase())) return span
    return withoutPrefix(span, opened + bare.length, 'title')
  }

  /** Without its beginning where a mark ends that and text follows. */
  function withoutPrefix(span: Span, length: number, rule: ExpansionRule): Span {
    const end = /^(?:["'”’]|\*\*|__)?\s*(?:[:：]|→|=>|[–—-](?=\s)|\.(?=\*\*))(?:\*\*|__)?\s*(?=\S)/.exec(
      textAt(span).slice(length),
    )
    if (!end) return span
    const rest = { from: span.from + length + end[0].length, to: span.to }
    removal.mark({ from: span.from, to: rest.from }, rule)
    return rest
  }

  function fewSentences(span: Span): Span {
    const sentences = sentencesIn(textAt(span)).map(({ from, to }) => ({ from: span.from + from, to: span.from + to }))
    if (sentences.length <= sentencesIn(line).length + moreSentences) return span
    const at = sentences.indexOf(bestOf(sentences, wanted)!)
    const few = { from: sentences[at]!.from, to: sentences[Math.min(at + 1, sentences.length - 1)]!.to }
    removal.mark({ from: span.from, to: few.from }, 'other sentences')
    removal.mark({ from: few.to, to: span.to }, 'other sentences')
    return few
  }

  /** The first with most of the words. */
  function bestOf(spans: readonly Span[], words: ReadonlySet<string>): Span | undefined {
    let best: { readonly span: Span; readonly found: number } | undefined
    for (const span of spans) {
      const own = wordsOf(textAt(span))
      const found = [...words].filter((word) => own.has(word)).length
      if (best === undefined || found > best.found) best = { span, found }
    }
    return best?.span
  }
}

/** A text that a length limit cut, up to its last full stop; '' where it has none. */
export function withoutCutSentence(text: string): string {
  const complete = sentencesIn(text).filter((sentence) => endsSentence.test(text.slice(sentence.from, sentence.to)))
  return text.slice(0, complete.at(-1)?.to ?? 0)
}

interface Span {
  readonly from: number
  readonly to: number
}

/** What each character of a reply is removed by. */
class Removal {
  readonly visible: string
  readonly #reply: string
  /** Index of each visible character in the reply. */
  readonly #places: readonly number[]
  readonly #rules: (ExpansionRule | undefined)[]

  constructor(reply: string) {
    this.#reply = reply
    this.#rules = new Array<ExpansionRule | undefined>(reply.length).fill(undefined)
    for (const { index, 0: reasoning } of reply.matchAll(/<think>[\s\S]*?(?:<\/think>|$)/gi))
      this.#rules.fill('reasoning', index, index + reasoning.length)
    // Some models begin within it.
    const all = this.#left()
    const end = all
      .map((at) => reply[at])
      .join('')
      .toLowerCase()
      .lastIndexOf('</think>')
    if (end >= 0) for (const at of all.slice(0, end + '</think>'.length)) this.#rules[at] = 'reasoning'
    const places = this.#left()
    for (const at of places.slice(maxChars)) this.#rules[at] = 'excess'
    this.#places = places.slice(0, maxChars)
    this.visible = this.#places.map((at) => reply[at]).join('')
  }

  mark({ from, to }: Span, rule: ExpansionRule): void {
    for (const at of this.#places.slice(from, to)) this.#rules[at] ??= rule
  }

  /** @param kept what is not in it and has no rule is white space */
  cleaned(kept: Span = { from: 0, to: 0 }): CleanExpansion {
    this.mark({ from: 0, to: kept.from }, 'space')
    this.mark({ from: kept.to, to: this.#places.length }, 'space')
    const pieces: { text: string; rule?: ExpansionRule }[] = []
    let start = 0
    for (let at = 1; at <= this.#reply.length; at++) {
      if (at < this.#reply.length && this.#rules[at] === this.#rules[start]) continue
      const rule = this.#rules[start]
      pieces.push({ text: this.#reply.slice(start, at), ...(rule && { rule }) })
      start = at
    }
    const after = pieces.slice(pieces.findLastIndex(({ rule }) => rule === undefined) + 1)
    return {
      text: pieces.map(({ text, rule }) => (rule ? '' : text)).join(''),
      pieces,
      reachesEnd: after.every(({ rule }) => rule === 'space' || rule === 'bold' || rule === 'introduction'),
    }
  }

  #left(): number[] {
    const left: number[] = []
    for (let at = 0; at < this.#rules.length; at++) if (this.#rules[at] === undefined) left.push(at)
    return left
  }
}

const spansOf = (text: string, pattern: RegExp): Span[] =>
  [...text.matchAll(pattern)].map(({ index, 0: found }) => ({ from: index, to: index + found.length }))

/** Scripts without spaces count by character. */
const wordsOf = (text: string): ReadonlySet<string> =>
  new Set(text.toLowerCase().match(/[\p{Script=Han}\p{Script=Hiragana}\p{Script=Katakana}\p{Script=Thai}]|[\p{L}\p{M}\p{N}]+/gu))

const isSame = (text: string, line: string): boolean => [...wordsOf(text)].join(' ') === [...wordsOf(line)].join(' ')

const endsSentence = /[.!?…。！？]["'”’)\]*」』_]*$/

/** White space between them belongs to none. "Mr." and initials end none. */
export function sentencesIn(paragraph: string): Span[] {
  const end =
    /(?<!\b(?:Mr|Mrs|Ms|Dr|St|Sr|Jr|vs|No|Mt|\p{Lu}|a\.m|p\.m))[.!?…]["'”’)\]]*\s+(?=["'“‘([*]*[\p{Lu}\p{N}])|[。！？]["'”’)\]」』]*\s*/gu
  const sentences: Span[] = []
  let start = 0
  for (const match of paragraph.matchAll(end)) {
    sentences.push({ from: start, to: match.index + match[0].trimEnd().length })
    start = match.index + match[0].length
  }
  return [...sentences, { from: start, to: paragraph.trimEnd().length }].filter(({ from, to }) => to > from)
}
