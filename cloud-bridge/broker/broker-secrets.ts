import { readFileSync, statSync } from 'node:fs'
import { BrimError } from '../../core/base/errors.ts'

export interface Login {
  readonly username: string
  readonly password: string
}

/** One line, `name:password`, that nobody else may read. @throws BrimError CONFIG_INVALID */
export function readLogin(path: string): Login {
  const [, username, password] = /^([^:\s]+):(\S+)$/.exec(readSecret(path)) ?? []
  if (username === undefined || password === undefined)
    throw new BrimError('CONFIG_INVALID', `${path} holds no name and password`, { hint: 'one line: <name>:<password>' })
  return { username, password }
}

/** A hook is as safe as its secret is hard to guess. */
const leastSecretLength = 16

/** One line that can stand in a URL and that nobody else may read. @throws BrimError CONFIG_INVALID */
export function readHookSecret(path: string): string {
  const secret = readSecret(path)
  if (secret.length < leastSecretLength || !/^[\w.-]+$/.test(secret))
    throw new BrimError('CONFIG_INVALID', `${path} holds no secret of ${leastSecretLength} letters, digits, . _ - or more`, {
      hint: `openssl rand -hex 24 > ${path}`,
    })
  return secret
}

function readSecret(path: string): string {
  try {
    const mode = statSync(path).mode & 0o777
    if ((mode & 0o077) !== 0)
      throw new BrimError('CONFIG_INVALID', `others may read the secret ${path} (mode 0${mode.toString(8)})`, {
        hint: `chmod 600 ${path}`,
      })
    return readFileSync(path, 'utf8').trim()
  } catch (cause) {
    if (cause instanceof BrimError) throw cause
    throw new BrimError('CONFIG_INVALID', `the secret ${path} cannot be read`, { cause, hint: 'is the path right?' })
  }
}
