/** The first half of a character beyond the Basic Multilingual Plane, at the end of a text. */
const half = /[\ud800-\udbff]$/

/**
 * Servers that count UTF-16 units split characters between events: the first half waits for the second. A half that stays alone becomes
 * the replacement character, or is left out at the end of the answer.
 */
export function wholeCharacters(): (text: string) => string {
  let waiting = ''
  return (text) => {
    if (text === '') return ''
    const all = waiting + text
    waiting = half.exec(all)?.[0] ?? ''
    return all.slice(0, all.length - waiting.length).replace(/\p{Surrogate}/gu, '\ufffd')
  }
}
