import { parseLine, type SketchLine } from '../../../core/answer/sketch/line-form.ts'
import { fitToRequest, requestedForm } from '../../../core/answer/sketch/requested-form.ts'
import type { ChatMessage } from '../../../core/model/text/chat-message.ts'

/**
 * Whether each form marker of a sketch is in the answer, in order: bullets, numbers, headings, titles, quotations, tables and code.
 * @param lines of the sketch, as the client got them
 */
export function formKept(lines: readonly string[], messages: readonly ChatMessage[], text: string): boolean {
  const fitted = fitToRequest(lines, requestedForm(messages)) ?? lines
  let at = 0
  for (const written of fitted) {
    const marker = markerOf(parseLine(written))
    const found = text.indexOf(marker, at)
    if (found < 0) return false
    at = found + marker.length
  }
  return true
}

const markerOf = ({ kind, mark, lead, text }: SketchLine): string =>
  (kind === 'code' || kind === 'table' || kind === 'rule' || kind === 'heading' ? mark + text : mark + lead).trim()
