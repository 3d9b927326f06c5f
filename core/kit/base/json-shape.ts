/** Deeper nesting may overflow the stack of JSON.stringify. */
const maxDepth = 64

const [quote, backslash, comma] = ['"', '\\', ','].map((character) => character.charCodeAt(0))
const [openList, closeList, openObject, closeObject] = ['[', ']', '{', '}'].map((character) => character.charCodeAt(0))

/**
 * Why JSON would take too long to parse and to check, at about a nanosecond a character; undefined: it would not. Parsing
 * 8 MB takes 20 ms where it is one text, and a second where it is millions of lists. Invalid JSON is the parser's to refuse.
 */
export function jsonShapeProblem(text: string, maxValues: number): string | undefined {
  let depth = 0
  let values = 1
  for (let at = 0; at < text.length; at++) {
    const code = text.charCodeAt(at)
    if (code === quote) {
      at = endOfString(text, at)
    } else if (code === openList || code === openObject) {
      values++
      if (++depth > maxDepth) return `nested deeper than ${maxDepth} levels`
    } else if (code === closeList || code === closeObject) {
      depth--
    } else if (code === comma) {
      values++
    }
    if (values > maxValues) return `more than ${maxValues} values`
  }
  return undefined
}

/** @returns the position of the quote that ends the string, or of the end of the text */
function endOfString(text: string, start: number): number {
  for (let at = text.indexOf('"', start + 1); at >= 0; at = text.indexOf('"', at + 1)) {
    let backslashes = 0
    while (text.charCodeAt(at - 1 - backslashes) === backslash) backslashes++
    if (backslashes % 2 === 0) return at
  }
  return text.length
}
