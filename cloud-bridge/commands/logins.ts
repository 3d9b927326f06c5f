import { existsSync, readFileSync, rmSync } from 'node:fs'
import { join } from 'node:path'
import { z } from 'zod'
import { BrimError } from '../../core/base/errors.ts'
import type { Io } from '../../core/base/io.ts'
import { modeOpenToOthers, writePrivate } from '../../core/base/private-file.ts'
import { configHome } from '../../core/base/state-home.ts'

const Login = z.strictObject({
  url: z.url({ protocol: /^https?$/ }),
  key: z.string(),
  /** SHA-256 of the public key that the bridge shows by TLS. */
  pin: z.string().optional(),
})
export type Login = z.infer<typeof Login>

const Logins = z.strictObject({
  v: z.literal(1),
  /** The one that is meant where none is named. */
  current: z.string().nullable(),
  logins: z.record(z.string(), Login),
})
/** Name → where this user has logged in, and with which key. */
export type Logins = z.infer<typeof Logins>

const fileOf = (io: Io) => join(configHome(io), 'brim', 'logins.json')

/** @throws BrimError IDENTITY_INVALID where others may read the file, or it is none of ours */
export function readLogins(io: Io): Logins {
  const path = fileOf(io)
  if (!existsSync(path)) return { v: 1, current: null, logins: {} }
  try {
    const mode = modeOpenToOthers(path)
    if (mode !== undefined)
      throw new BrimError('IDENTITY_INVALID', `others may read the keys in ${path} (mode ${mode})`, {
        hint: `chmod 600 ${path}; if somebody may have read it: brim bridge key revoke …, then log in with another`,
      })
    return Logins.parse(JSON.parse(readFileSync(path, 'utf8')))
  } catch (cause) {
    if (cause instanceof BrimError) throw cause
    throw new BrimError('IDENTITY_INVALID', `the logins in ${path} cannot be read`, {
      cause,
      hint: 'move it away; then brim login',
    })
  }
}

/** The latest is the current one. @throws BrimError IDENTITY_INVALID, TARGET_UNWRITABLE */
export function addLogin(io: Io, name: string, login: Login): void {
  const { logins } = readLogins(io)
  write(io, { v: 1, current: name, logins: { ...logins, [name]: login } })
}

/** @returns whether there was such a login. @throws BrimError IDENTITY_INVALID, TARGET_UNWRITABLE */
export function removeLogin(io: Io, name: string): boolean {
  const { current, logins } = readLogins(io)
  const { [name]: removed, ...rest } = logins
  if (removed === undefined) return false
  if (Object.keys(rest).length === 0) rmSync(fileOf(io))
  else write(io, { v: 1, current: current === name ? null : current, logins: rest })
  return true
}

const write = (io: Io, logins: Logins) => writePrivate(fileOf(io), `${JSON.stringify(logins, null, 2)}\n`)
