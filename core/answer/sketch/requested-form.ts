import type { ChatMessage } from '../../model/text/chat-message.ts'
import { isExpanded, parseLine, type SketchLine, unbold } from './line-form.ts'

/** What a client says about the form of the answer, in English, German, French, Spanish, Chinese or Japanese. */
export interface RequestedForm {
  readonly list: 'number' | 'bullet' | undefined
  /** Points of the list. */
  readonly count: number | undefined
  /** Each point begins with a bold title. */
  readonly hasTitles: boolean
  /** No lists, headings or bold type. */
  readonly isPlain: boolean
}

const plain =
  /\b(?:no|without(?: any)?|(?:don['’]?t|do not|never) use(?: any)?|avoid(?: any)?)\s+(?:(?:numbered|bulleted)\s+)?(?:bullets?|bullet[- ]points?|lists?|numbering|markdown|formatting|headings?)\b|\bplain text\b|\b(?:in|as) (?:one|a single) paragraph\b|\bohne (?:aufzählung|liste|markdown|überschrift)|\bsans (?:liste|puces|markdown)|\bsin (?:listas?|viñetas|markdown)|不要(?:使用|用)?(?:列表|编号|分点)|一段话|箇条書きにしない|箇条書きなし/iu
const numbered =
  /\b(?:numbered|ordered) (?:list|points?|items?|steps?)\b|\bnumber (?:the|each|your|them)\b|\bnummerier|\bnumérot|\blista (?:numerada|ordenada)|\bnumerad[oa]s?\b|编号|有序列表|番号付き|番号を/iu
const bulleted =
  /\bbullet(?:ed|s)?\b|\bbullet[- ]points?\b|\baufzählung|\bstichpunkt|(?<!\p{L})à puces\b|\bviñetas\b|项目符号|分点|箇条書き/iu
const title = String.raw`(?:titles?|headings?|names?|terms?|labels?|titel|überschrift\w*|titres?|títulos?)`
const titled = new RegExp(
  String.raw`\b(?:bold(?:ed)?|fette\w?|gras|negrita)\b.{0,20}(?<!\p{L})${title}(?!\p{L})|(?<!\p{L})${title}(?!\p{L}).{0,24}\b(?:bold|fett\w*|gras|negrita)\b|加粗|粗体|太字`,
  'iu',
)
const numerals = 'one two three four five six seven eight nine ten eleven twelve'.split(' ')
const hanNumerals = '一二三四五六七八九十'
const points =
  'tips?|points?|ways|steps?|ideas?|items?|reasons?|things|examples?|bullets?|tipps|punkte|gründe|schritte|ideen|conseils|raisons|idées|étapes|consejos|puntos|razones|pasos'
const counted = new RegExp(
  String.raw`(?<![\d.,])(\d{1,2}|${numerals.join('|')})\s+(?:[\p{L}-]+\s+){0,2}(?:${points})(?!\p{L})|(\d{1,2}|[${hanNumerals}])\s*[个個条點点项項种種]`,
  'iu',
)

/** Of a message; what a client pastes between beginning and end says nothing about the answer. */
const readChars = 2_000

export function requestedForm(messages: readonly ChatMessage[]): RequestedForm {
  const asking = messages.findLast(({ role }) => role === 'user')
  const text = messages
    .flatMap((message) => (message.role === 'system' || message === asking ? [ends(message.content ?? '')] : []))
    .join('\n')
  const isPlain = plain.test(text)
  const list = isPlain ? undefined : numbered.test(text) ? 'number' : bulleted.test(text) ? 'bullet' : undefined
  const [, count, hanCount] = counted.exec(text) ?? []
  return { list, count: countOf(count ?? hanCount), hasTitles: !isPlain && titled.test(text), isPlain }
}

const ends = (text: string): string =>
  text.length <= 2 * readChars ? text : `${text.slice(0, readChars)}\n${text.slice(-readChars)}`

function countOf(word: string | undefined): number | undefined {
  if (word === undefined) return undefined
  const named = numerals.indexOf(word.toLowerCase()) + 1 || hanNumerals.indexOf(word) + 1
  const count = named || Number(word)
  return count >= 2 ? count : undefined
}

/** A sentence about it for the model that sketches; '' where the request says nothing. */
export function formText({ list, count, hasTitles, isPlain }: RequestedForm): string {
  if (isPlain) return 'It is plain text without lists, headings or bold type. '
  if (!list) return hasTitles ? 'Each point begins with a bold title. ' : ''
  const kind = list === 'number' ? 'a numbered list' : 'a list of bullets'
  return `It is ${kind}${count ? ` of ${count} points` : ''}${hasTitles ? ', each with a bold title' : ''}. `
}

/**
 * The lines of a sketch in the form that the request asks for. @param lines as the model wrote them
 * @returns undefined: they cannot have it, as where a title is missing
 */
export function fitToRequest(lines: readonly string[], form: RequestedForm): readonly string[] | undefined {
  if (form.isPlain) return lines.flatMap(unmarked)
  const listed = form.list ? asList(lines, form.list, form.count) : lines
  return form.hasTitles ? listed && withTitles(listed) : listed
}

function unmarked(written: string): readonly string[] {
  const line = parseLine(written)
  const { kind, isApart, lead, text } = line
  if (kind === 'code' || kind === 'table') return [written]
  const words = unbold(lead + text).trim()
  return kind === 'heading' || kind === 'rule' || words === '' ? [] : [(isApart ? '\n' : '') + words]
}

const isTop = ({ kind, indent }: SketchLine): boolean => (kind === 'bullet' || kind === 'number') && indent === ''

function asList(
  lines: readonly string[],
  list: NonNullable<RequestedForm['list']>,
  count: number | undefined,
): readonly string[] | undefined {
  const parsed = lines.map(parseLine)
  const own = parsed.filter(isTop)
  const points = own.length > 0 ? own.filter(({ kind }) => kind !== list) : pointsOf(parsed, count)
  let number = 0
  return (
    points &&
    lines.map((written, at) => {
      const line = parsed[at]!
      if (!points.includes(line)) return written
      number += 1
      return (line.isApart && number > 1 ? '\n' : '') + (list === 'number' ? `${number}. ` : '- ') + line.lead + line.text
    })
  )
}

/** The lines of a sketch without marks that are the points: not what introduces and closes the list. */
function pointsOf(lines: readonly SketchLine[], count: number | undefined): readonly SketchLine[] | undefined {
  const texts = lines.filter((line) => line.kind === 'text' && (isExpanded(line) || line.lead !== ''))
  if (count === undefined || texts.length === count) return texts
  if (texts.length === count + 1) return texts.slice(1)
  return texts.length === count + 2 ? texts.slice(1, -1) : undefined
}

/** Longer words before a colon are no title. */
const maxTitleWords = 6
const plainTitle = /^([^:：.!?。！？*]{2,60})[:：]\s*(?=\S)/

function withTitles(lines: readonly string[]): readonly string[] | undefined {
  const parsed = lines.map(parseLine)
  const fitted = lines.map((written, at) => {
    const line = parsed[at]!
    if (!isTop(line) || line.lead !== '') return written
    const found = plainTitle.exec(line.text)
    const words = (found?.[1] ?? '').trim().split(/\s+/).length
    if (!found || words > maxTitleWords) return undefined
    const wide = /：\s*$/.test(found[0])
    const lead = wide ? `**${found[1]!.trim()}**：` : `**${found[1]!.trim()}:** `
    return `${line.isApart ? '\n' : ''}${line.mark}${lead}${line.text.slice(found[0].length)}`
  })
  return fitted.every((line) => line !== undefined) ? fitted : undefined
}
