import { z } from 'zod'
import { BrimError } from '../../../core/kit/base/errors.ts'
import { defineCommand } from '../../../core/kit/cli/command.ts'
import { readLogins, removeLogin } from '../../../core/kit/login/logins.ts'

/** `brim logout` */
export const command = defineCommand({
  examples: [
    ['brim logout', 'the current login'],
    ['brim logout --name prod', 'another one'],
  ],
  options: { name: z.string().optional().meta({ description: 'name of the login', fallback: 'the current login' }) },
  run({ name: given, json }, io) {
    const { current, logins } = readLogins(io)
    const name = given ?? current
    if (name === null || !removeLogin(io, name))
      throw new BrimError('IDENTITY_UNKNOWN', name === null ? 'there is no current login' : `there is no login "${name}"`, {
        hint: `logins: ${Object.keys(logins).join(', ') || 'none'}`,
      })
    io.out(json ? JSON.stringify({ login: name, removed: true }) : `login ${name} deleted`)
  },
})
