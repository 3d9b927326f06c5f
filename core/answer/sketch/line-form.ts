/**
 * The form of a sketch's lines: what a line is in the answer, which of it a device writes out, and how the written lines are joined.
 * A line is kept as the LLM wrote it; a line break before it stands for a blank line.
 */

export type LineKind = 'text' | 'bullet' | 'number' | 'heading' | 'quote' | 'code' | 'table' | 'rule'

export interface SketchLine {
  readonly kind: LineKind
  /** Whether a blank line precedes it. */
  readonly isApart: boolean
  /** White space before it: nesting in lists. */
  readonly indent: string
  /** With its space: "- ", "3. ", "- [ ] ", "## ", "> "; '' for text. */
  readonly mark: string
  /** Bold title with the punctuation and space after it: "**Sleep:** ". */
  readonly lead: string
  /** Key words, or the text itself of a line that is kept as it is. */
  readonly text: string
}

/** The longest nesting that is kept. */
const maxIndent = 12

const bullet = String.raw`[-*+•◦▪–—]\s+(?:\[[ xX]?\]\s+)?`
const numeral = String.raw`\(?\d{1,3}[.)]\s+|\(?[a-zA-Z]\)\s+|(?:\d{1,3}|[一二三四五六七八九十]{1,3})[、．]\s*|step\s+\d{1,3}\s*[:.)–-]\s*`
const bulletMark = new RegExp(`^(?:${bullet})`)
const numberMark = new RegExp(`^(?:${numeral})`, 'i')
const quoteMark = /^>\s*/
const boldTitle = /^(?:\*\*[^*\n]{1,120}\*\*|__[^_\n]{1,120}__)(?:\s*[:：.。–—-]+(?=\s|$)|：)?\s*/
/** The model's own label of a line of the sketch. */
const label = /^(?:line|point|sentence)\s+\d{1,3}\s*[:.)–-]\s*/i
export const fence = /^\s*(`{3,}|~{3,})/
const ruler = /^(?:-{3,}|\*{3,}|_{3,})$/

/** @param written of `SketchReader`: one line, or a whole block of code */
export function parseLine(written: string): SketchLine {
  const isApart = written.startsWith('\n')
  const line = isApart ? written.slice(1) : written
  const base = { isApart, indent: '', mark: '', lead: '' }
  if (fence.test(line)) return { ...base, kind: 'code', text: line }
  const body = line.trimStart()
  const indent = indentOf(line.slice(0, line.length - body.length))
  const text = body.trimEnd()
  if (/^\|.*\|$/.test(text)) return { ...base, indent, kind: 'table', text }
  if (ruler.test(text)) return { ...base, kind: 'rule', text }
  const heading = /^#{1,6}\s+/.exec(text)
  if (heading) return { ...base, kind: 'heading', mark: heading[0], text: text.slice(heading[0].length) }
  const { kind, mark, rest } = marksOf(text)
  const lead = boldTitle.exec(rest)?.[0] ?? ''
  return { kind, isApart, indent, mark, lead, text: rest.slice(lead.length).replace(label, '') }
}

/** A line may have several: a quotation of a list, a bullet before a number. */
function marksOf(text: string): { readonly kind: LineKind; readonly mark: string; readonly rest: string } {
  let kind: LineKind = 'text'
  let mark = ''
  let rest = text
  for (let marks = 0; marks < 4; marks++) {
    const found = findMark(rest)
    if (!found) break
    kind = found.kind
    mark += found.mark
    rest = rest.slice(found.mark.length)
  }
  return { kind, mark, rest }
}

function findMark(text: string): { readonly kind: LineKind; readonly mark: string } | undefined {
  for (const [kind, pattern] of [
    ['quote', quoteMark],
    ['bullet', bulletMark],
    ['number', numberMark],
  ] as const) {
    const mark = pattern.exec(text)?.[0]
    if (mark) return { kind, mark }
  }
  return undefined
}

const indentOf = (space: string): string => ' '.repeat(Math.min(maxIndent, space.replaceAll('\t', '    ').length))

/** Whether a small model writes the line out. Others are part of the answer as the LLM wrote them. */
export function isExpanded({ kind, text }: SketchLine): boolean {
  if (kind === 'heading' || kind === 'code' || kind === 'table' || kind === 'rule') return false
  if (!hasWord(text)) return false
  // It announces the list after it.
  return !(kind === 'text' && /[:：]$/.test(text))
}

const hasWord = (text: string): boolean => /[\p{L}\p{N}]/u.test(text)

/** What devices see of a line: one line of plain text. Never empty for a line of a sketch. */
export function keyWordsOf({ kind, lead, text }: SketchLine): string {
  if (kind === 'code') return shortened(text.split('\n').slice(1, -1).join(' ').trim() || 'code')
  return shortened(unbold(lead + text).trim() || '…')
}

export const unbold = (text: string): string => text.replaceAll('**', '').replaceAll('__', '')

const maxKeyWordChars = 400
const shortened = (text: string): string => text.slice(0, maxKeyWordChars).replace(/[\ud800-\udbff]$/, '')

/** Joins the lines of an answer while their texts come, in the order of the sketch. Mutable. */
export class FormJoin {
  #before: { readonly line: SketchLine; readonly text: string } | undefined

  /**
   * @param text of the line: written out, or its own; '' leaves the line out, unless it has a title
   * @returns what follows what was returned before
   */
  push(line: SketchLine, text: string): string {
    const own = line.kind === 'code' ? text.trimEnd() : text.trim()
    if (own === '' && line.lead.trim() === '') return ''
    const whole = line.mark + (own === '' ? line.lead.trimEnd() : line.lead + own)
    const before = this.#before
    this.#before = { line, text: whole }
    return before ? this.#separator(before, line, whole) + whole : nested(line) + whole
  }

  #separator(
    { line: before, text }: { readonly line: SketchLine; readonly text: string },
    line: SketchLine,
    whole: string,
  ): string {
    const isList = isItem(line.kind)
    if (line.kind === 'text' && line.lead === '') {
      const continues = before.kind === 'text' && !line.isApart && isExpanded(before)
      if (continues) return between(text, whole)
      // The text of a list's item, below its title.
      if (line.indent !== '' && (isItem(before.kind) || before.indent !== '')) return `${breaks(line)}${line.indent}`
      return '\n\n'
    }
    // Within a list's item.
    if (line.kind === 'code' && /^\s/.test(line.text) && isItem(before.kind)) return breaks(line)
    if (isList && isItem(before.kind)) return `${breaks(line)}${line.indent}`
    if (isList && before.indent !== '') return `${breaks(line)}${line.indent}`
    if (line.kind === before.kind && (line.kind === 'table' || line.kind === 'quote')) return `${breaks(line)}${line.indent}`
    return `\n\n${line.indent}`
  }
}

const isItem = (kind: LineKind): boolean => kind === 'bullet' || kind === 'number'
const breaks = ({ isApart }: SketchLine): string => (isApart ? '\n\n' : '\n')
/** The first line of an answer is no code block by its indentation. */
const nested = ({ indent, kind }: SketchLine): string => (isItem(kind) ? indent.slice(0, 3) : '')

const spaceless = String.raw`[\p{Script=Han}\p{Script=Hiragana}\p{Script=Katakana}\u3000-\u303f\uff01-\uff65]`
const endsSpaceless = new RegExp(`${spaceless}["'”’)*_]*$`, 'u')
const beginsSpaceless = new RegExp(`^["'“‘(*_]*${spaceless}`, 'u')
const endsWide = /[\u3000-\u303f\uff01-\uff65]["'”’)*_]*$/u

/** Chinese and Japanese have no space between sentences. */
const between = (before: string, after: string): string =>
  endsWide.test(before) || (endsSpaceless.test(before) && beginsSpaceless.test(after)) ? '' : ' '
