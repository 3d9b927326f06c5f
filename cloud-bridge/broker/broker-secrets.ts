import { BrimError } from '../../core/kit/base/errors.ts'
import { readSecret } from '../../core/kit/base/private-file.ts'

export interface BrokerLogin {
  readonly username: string
  readonly password: string
}

/** Reads one line, `name:password`, from a private file. @throws BrimError CONFIG_INVALID */
export function readLogin(path: string): BrokerLogin {
  const [, username, password] = /^([^:\s]+):(\S+)$/.exec(readSecret(path)) ?? []
  if (username === undefined || password === undefined)
    throw new BrimError('CONFIG_INVALID', `${path} does not hold a name and a password`, { hint: 'one line: <name>:<password>' })
  return { username, password }
}

const minSecretLength = 16

/** Reads one line that is valid in a URL, from a private file. @throws BrimError CONFIG_INVALID */
export function readHookSecret(path: string): string {
  const secret = readSecret(path)
  if (secret.length < minSecretLength || !/^[\w.-]+$/.test(secret))
    throw new BrimError(
      'CONFIG_INVALID',
      `${path} does not hold a secret of at least ${minSecretLength} letters, digits or . _ -`,
      { hint: `openssl rand -hex 24 > ${path}` },
    )
  return secret
}
