import { existsSync, rmSync } from 'node:fs'
import { join } from 'node:path'
import { z } from 'zod'
import { orThrow } from '../base/errors.ts'
import type { Io } from '../base/io.ts'
import { readPrivate, writePrivate } from '../base/private-file.ts'
import { configHome } from '../base/state-home.ts'

const Login = z.strictObject({
  url: z.url({ protocol: /^https?$/ }),
  key: z.string(),
  /** SHA-256 of the public key of the bridge's TLS certificate. */
  pin: z.string().optional(),
})
export type Login = z.infer<typeof Login>

const Logins = z.strictObject({
  v: z.literal(1),
  /** Used where none is named. */
  current: z.string().nullable(),
  logins: z.record(z.string(), Login),
})
/** This user's logins by name. */
export type Logins = z.infer<typeof Logins>

const fileOf = (io: Io) => join(configHome(io), 'brim', 'logins.json')

/** @throws BrimError IDENTITY_INVALID where other users can read the file, or it cannot be parsed */
export function readLogins(io: Io): Logins {
  const path = fileOf(io)
  if (!existsSync(path)) return { v: 1, current: null, logins: {} }
  const code = 'IDENTITY_INVALID'
  const hint = 'move it away and log in again'
  const leaked = 'if its keys may have been read, revoke them with "brim bridge key revoke"'
  const text = readPrivate(path, { code, what: 'login file', hint, leaked })
  return orThrow(() => Logins.parse(JSON.parse(text)), code, `login file ${path} cannot be read`, hint)
}

/** Makes it the current login. @throws BrimError IDENTITY_INVALID, TARGET_UNWRITABLE */
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
