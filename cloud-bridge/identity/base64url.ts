/**
 * Strict base64url without padding. Node accepts other characters, and several spellings of the same bytes: each would be
 * another name for a key or a secret.
 * @returns undefined unless `text` is the one spelling of some bytes, of `length` where that is given
 */
export function bytesOf(text: string, length?: number): Buffer | undefined {
  const bytes = Buffer.from(text, 'base64url')
  return bytes.toString('base64url') === text && bytes.length === (length ?? bytes.length) ? bytes : undefined
}
