import { z } from 'zod'
import { BrimError } from '../../../core/kit/base/errors.ts'
import type { CommandAction } from '../../../core/wire/protocol/commands.ts'
import { type CommandRecord, deviceOperations } from '../../../core/wire/protocol/http/devices.ts'
import type { BridgeClient } from '../bridge-client.ts'

export const deviceOption = z.string().describe('name of the device, as "brim device list" shows it')

/** Explains the words, for help texts. */
export const stateNotes =
  'States: ready, draining, init (starting), disconnected (shut down, or "off"), lost (vanished), never (enrolled, has\n' +
  'not connected), pending (waits for "brim device approve"), revoked.'

export const cloneText = (other: string): string => `its key is also used by ${other}: a cloned image`

/** Seconds that one request waits at the bridge: proxies close longer ones. */
const waitS = 20

/** @param expiresS the device carries it out by then, or not at all */
export async function sendCommand(
  client: BridgeClient,
  id: string,
  command: CommandAction,
  expiresS: number,
): Promise<CommandRecord> {
  const body = { ...command, expiresS }
  return (await client.call(deviceOperations.command, { params: { id }, body })).value
}

/** Waits until the device has replied, or the command has expired. @throws BrimError COMMAND_REFUSED, COMMAND_EXPIRED */
export async function awaitReply(client: BridgeClient, sent: CommandRecord): Promise<CommandRecord> {
  const params = { id: sent.device, command: sent.id }
  let record = sent
  while (record.state === 'SENT') record = (await client.call(deviceOperations.showCommand, { params, query: { waitS } })).value
  const { device, state, reason, wish } = record
  if (state === 'DONE') return record
  const why = reason === null ? '' : `: ${reason}`
  if (state === 'REFUSED')
    throw new BrimError('COMMAND_REFUSED', `${device} refuses "${wish.type}"${why}`, {
      hint: `it may run an older release: "brim device show ${device}" shows which`,
    })
  throw new BrimError('COMMAND_EXPIRED', `"${wish.type}" expired before ${device} replied${why}`, {
    hint: `check with "brim device show ${device}" that it is connected, or wait longer with --timeout`,
  })
}
