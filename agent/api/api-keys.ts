import { readFileSync } from 'node:fs'
import { BrimError } from '../../core/kit/base/errors.ts'
import { modeOpenToOthers } from '../../core/kit/base/private-file.ts'

const minKeyLength = 16

/**
 * One key a line, so that keys can be replaced without an interruption.
 * @throws BrimError CONFIG_INVALID naming the file
 */
export function readApiKeys(path: string): string[] {
  const invalid = (problem: string, hint: string, cause?: unknown) =>
    new BrimError('CONFIG_INVALID', `the API key file ${path} ${problem}`, { hint, cause })
  let text: string
  try {
    const mode = modeOpenToOthers(path)
    if (mode !== undefined) throw invalid(`is readable by other users (mode ${mode})`, `chmod 600 ${path}`)
    text = readFileSync(path, 'utf8')
  } catch (cause) {
    if (cause instanceof BrimError) throw cause
    throw invalid('cannot be read', `create it with: (umask 077; openssl rand -hex 32 > ${path})`, cause)
  }
  const keys = text.split('\n').flatMap((line) => (line.trim() === '' ? [] : [line.trim()]))
  if (keys.length === 0 || keys.some((key) => key.length < minKeyLength || /\s/.test(key)))
    throw invalid(
      `needs one key a line, of at least ${minKeyLength} characters without spaces`,
      'openssl rand -hex 32 prints a key',
    )
  return keys
}
