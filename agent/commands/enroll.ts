import { z } from 'zod'
import { readPrivate } from '../../core/kit/base/private-file.ts'
import { defineCommand } from '../../core/kit/cli/command.ts'
import { Id } from '../../core/wire/protocol/id.ts'
import { enrol } from '../identity/enrolment.ts'
import { agentStateDir, stateDirOption } from './state-dir.ts'

export const command = defineCommand({
  usage: '--id <name> --token-file <file>|-',
  examples: [
    ['brim agent enroll --id jetson-01 --token-file token', 'with the file of "brim bridge token create --out token"'],
    ['ssh bridge brim bridge token create | brim agent enroll --id jetson-01 --token-file -', 'without a token on disk'],
  ],
  options: {
    id: Id.describe('name of this device in its fleet'),
    tokenFile: z.string().describe('file with the enrolment token; -: standard input'),
    replace: z.boolean().default(false).describe('create a new key even if this device has one'),
    stateDir: stateDirOption,
  },
  async run({ id, tokenFile, replace, stateDir, json }, io) {
    const token = (tokenFile === '-' ? await io.stdin() : readPrivate(tokenFile, tokenFileErrors)).trim()
    const { asOwner } = await import('../../core/kit/store/as-owner.ts')
    const request = { stateDir: agentStateDir(stateDir, id, io), device: id, token, replace }
    const { url, mqttUrl, bridge, fleet, group, status } = await asOwner(request.stateDir, () => enrol(request, io.signal))
    if (json) return io.out(JSON.stringify({ device: id, bridge, fleet, group, status, url, mqttUrl }))
    io.out(`device ${id} enrolled at bridge ${bridge}, group ${group}: ${status}`)
    if (status === 'pending') io.err(`  next, at the bridge: brim device approve ${id}`)
  },
})

const tokenFileErrors = {
  code: 'USAGE',
  what: 'token file',
  hint: '--token-file - reads standard input',
  leaked: 'if another user may have read it, revoke it with "brim bridge token revoke"',
} as const
