import { BrimError } from '../../kit/base/errors.ts'
import { readSecret } from '../../kit/base/private-file.ts'

/** The key of a server's API, as a header can hold it. @throws BrimError CONFIG_INVALID */
export function readApiKey(file: string): string {
  const key = readSecret(file)
  if (/^[\x21-\x7e]+$/.test(key)) return key
  throw new BrimError('CONFIG_INVALID', `${file} does not hold an API key`, { hint: 'one line, without spaces' })
}
