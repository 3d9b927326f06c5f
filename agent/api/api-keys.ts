import { BrimError } from '../../core/kit/base/errors.ts'
import { readPrivate } from '../../core/kit/base/private-file.ts'

const minKeyLength = 16

/**
 * One key a line, so that keys can be replaced without an interruption.
 * @throws BrimError CONFIG_INVALID naming the file
 */
export function readApiKeys(path: string): string[] {
  const hint = `create it with: (umask 077; openssl rand -hex 32 > ${path})`
  const text = readPrivate(path, { code: 'CONFIG_INVALID', what: 'the API key file', hint })
  const keys = text.split('\n').flatMap((line) => (line.trim() === '' ? [] : [line.trim()]))
  if (keys.length === 0 || keys.some((key) => key.length < minKeyLength || /\s/.test(key)))
    throw new BrimError(
      'CONFIG_INVALID',
      `the API key file ${path} needs one key a line, of at least ${minKeyLength} characters without spaces`,
      { hint: 'openssl rand -hex 32 prints a key' },
    )
  return keys
}
