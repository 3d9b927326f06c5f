/** What all replies to PICE's prompts may have beside the reply itself. */

/** Without the reasoning that some models write before their answer; unfinished reasoning leaves nothing. */
export const visibleReply = (text: string): string =>
  text.replace(/<think>[\s\S]*?(?:<\/think>|$)/gi, '').replace(/^[\s\S]*<\/think>/i, '')

/** Bullets, check boxes, headings, "1.", "2)", "(a)", "Line 3:" at the start of a line. */
const mark =
  /^(?:[-*+•◦▪–—>]\s+|#{1,6}\s+|\[[ xX]?\]\s+|\(?\d{1,3}[.)]\s+|\(?[a-zA-Z]\)\s+|(?:line|point|sentence|step)\s+\d{1,3}\s*[:.)–-]\s*)/i

/** A line without list marks, bold type and surrounding space; '' for a line without letters or digits. */
export function withoutMarks(line: string): string {
  let text = line.replaceAll('**', '').trim()
  // A bullet may precede a number.
  for (let marks = 0; marks < 4 && mark.test(text); marks++) text = text.replace(mark, '').trim()
  return /[\p{L}\p{N}]/u.test(text) ? text : ''
}

/** Length of the marks and the space with which a text begins. */
export function markLength(text: string): number {
  let rest = text
  for (let marks = 0; marks < 4 && mark.test(rest); marks++) rest = rest.replace(mark, '')
  return /[\p{L}\p{N}]/u.test(rest) ? text.length - rest.length : 0
}

export const isFence = (line: string): boolean => /^\s*(?:```|~~~)/.test(line)

/** A line that announces what follows: "Sure! Here is the sketch:", "Outline:". A line of key words has no mark after "sure". */
export const isIntroduction = (line: string): boolean =>
  /^(?:(?:sure|certainly|of course|okay|ok|absolutely)[,.!:]\s*)?(?:(?:here(?:['’]s| is| are| comes)|this is)\b.*:|(?:the |my )?(?:sketch|outline|key words|expanded (?:line|sentence)|full sentence)\b.{0,60}:|(?:sketch|outline):?)?$/i.test(
    line,
  )
