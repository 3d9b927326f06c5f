import { isFence, isIntroduction, visibleReply, withoutIntroduction, withoutMarks } from './reply.ts'

/** A line stands for one sentence, which may become two; a model that writes more than so many has left its line. */
const moreSentences = 2

/** Longer text is a loop; its beginning tells as much. */
const maxChars = 16_384

/**
 * The part of a reply that writes out `line`, because a model may write more than it was asked for: an introduction, the line itself,
 * a number, the next lines or the whole answer. Of several paragraphs it is the first of those with most words of the line, of many
 * sentences the two from the one with most. '' only where the reply has no letters or digits.
 */
export function cleanExpansion(reply: string, line: string): string {
  const keepsMark = /^\W*\d/.test(line)
  const paragraphs = visibleReply(reply)
    .slice(0, maxChars)
    .split(/[\r\n]+/)
    .filter((paragraph) => !isFence(paragraph) && withoutMarks(paragraph) !== '')
    // A number belongs to the text where the line begins with it.
    .map((paragraph) => (keepsMark ? paragraph.trim() : withoutMarks(paragraph)))
  const told = paragraphs
    .filter((paragraph) => !isIntroduction(paragraph))
    .map((paragraph) => withoutEcho(withoutIntroduction(paragraph), line))
  const written = told.filter((paragraph) => !isSame(paragraph, line))
  const wanted = wordsOf(line)
  const paragraph = bestOf(written, wanted) ?? told[0] ?? paragraphs[0] ?? ''
  const sentences = sentencesIn(paragraph)
  if (sentences.length <= sentencesIn(line).length + moreSentences) return paragraph
  const at = sentences.indexOf(bestOf(sentences, wanted)!)
  return sentences.slice(at, at + 2).join(' ')
}

/** Without the line before its expansion, as in "vitamins, immune system: Vitamins help …". */
function withoutEcho(paragraph: string, line: string): string {
  const echo = line.replace(/[\s.:;,]+$/, '')
  if (echo === '' || !paragraph.toLowerCase().startsWith(echo.toLowerCase())) return paragraph
  const rest = /^["'”’]?\s*(?::|→|=>|[–—-](?=\s))\s*(.*)$/s.exec(paragraph.slice(echo.length))?.[1]
  return rest ? rest : paragraph
}

/** The first with most of the words. */
function bestOf(texts: readonly string[], wanted: ReadonlySet<string>): string | undefined {
  let best: { readonly text: string; readonly found: number } | undefined
  for (const text of texts) {
    const own = wordsOf(text)
    const found = [...wanted].filter((word) => own.has(word)).length
    if (best === undefined || found > best.found) best = { text, found }
  }
  return best?.text
}

const wordsOf = (text: string): ReadonlySet<string> => new Set(text.toLowerCase().match(/[\p{L}\p{N}]+/gu))

const isSame = (text: string, line: string): boolean => [...wordsOf(text)].join(' ') === [...wordsOf(line)].join(' ')

/** Joined by spaces they are the paragraph again, white space aside. "Mr." and initials end none. */
function sentencesIn(paragraph: string): string[] {
  const end = /(?<!\b(?:Mr|Mrs|Ms|Dr|St|Sr|Jr|vs|No|Mt|\p{Lu}|a\.m|p\.m))[.!?…]["'”’)\]]*\s+(?=["'“‘([]*[\p{Lu}\p{N}])/gu
  const sentences: string[] = []
  let start = 0
  for (const match of paragraph.matchAll(end)) {
    sentences.push(paragraph.slice(start, match.index + match[0].length).trim())
    start = match.index + match[0].length
  }
  return [...sentences, paragraph.slice(start).trim()].filter((sentence) => sentence !== '')
}
