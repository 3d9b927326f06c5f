/**
 * Text from devices, bridges and models must not control the terminal: escape sequences write to the clipboard, clear the
 * screen and change its title, and direction marks reorder what a person reads. Zero-width joiners stay: emoji and several
 * scripts need them.
 */
const controls = /(?![\n\u200c\u200d])[\p{Cc}\p{Cf}\p{Cs}\p{Zl}\p{Zp}]/gu

/**
 * The text with control characters as `\u001b`, so that a person sees them; lines stay, and tabs become spaces. The escapes
 * are those of JSON: a JSON document remains valid, and means the same.
 */
export const visibleText = (text: string): string =>
  text.replace(/\r\n/g, '\n').replaceAll('\t', '    ').replace(controls, escaped)

/** The same for a text that must stay on one line: it could not be told from the lines after it. */
export const visibleLine = (text: string): string => visibleText(text.replaceAll('\n', '\\u000a'))

const escaped = (character: string): string =>
  character
    .split('')
    .map((unit) => `\\u${unit.charCodeAt(0).toString(16).padStart(4, '0')}`)
    .join('')
