import { BrimError } from '../../core/kit/base/errors.ts'
import { readSecret } from '../../core/kit/base/private-file.ts'
import { type NatsAdmin, parseNatsAdmin } from './nats-admin.ts'

export interface BrokerLogin {
  readonly username: string
  readonly password: string
}

/** Reads the file of an administrator: one line, `name:password`, or the keys of a NATS cluster. @throws BrimError CONFIG_INVALID */
export function readAdmin(path: string): BrokerLogin | NatsAdmin {
  const text = readSecret(path)
  if (text.startsWith('{')) return parseNatsAdmin(text, path)
  const [, username, password] = /^([^:\s]+):(\S+)$/.exec(text) ?? []
  if (username === undefined || password === undefined)
    throw new BrimError('CONFIG_INVALID', `${path} does not hold a name and a password`, {
      hint: 'one line: <name>:<password>; or the file of brim bridge nats-keys',
    })
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
