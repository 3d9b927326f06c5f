import { z } from 'zod'
import { BrimError } from '../../../core/base/errors.ts'
import type { CommandAction } from '../../../core/protocol/commands.ts'
import { deviceOperations } from '../../../core/protocol/http/devices.ts'
import type { BridgeClient } from '../bridge-client.ts'
import { DeviceLine } from '../fleet/table.ts'

export const deviceOption = z.string().describe('name of the device')

export const cloneText = (other: string): string => `its key is also used by ${other}: a cloned image`

/** A remote command as the bridge reports it. */
export const CommandReport = z.looseObject({
  id: z.string(),
  device: z.string(),
  state: z.string(),
  reason: z.string().nullish(),
  wish: z.looseObject({ type: z.string() }),
  actor: z.string(),
  at: z.string(),
  expiresAt: z.string(),
})
export type CommandReport = z.infer<typeof CommandReport>

/** Seconds that one request waits at the bridge: proxies close longer ones. */
const requestS = 20

export const devicePath = (device: string, rest = '') => `${deviceOperations.list.path}/${encodeURIComponent(device)}${rest}`

/** @param expiresS the device carries it out by then, or not at all */
export async function sendCommand(
  client: BridgeClient,
  device: string,
  command: CommandAction,
  expiresS: number,
): Promise<CommandReport> {
  return CommandReport.parse(await client.post(devicePath(device, '/commands'), { ...command, expiresS }))
}

/** Waits until the device has replied, or the command has expired. @throws BrimError COMMAND_REFUSED, COMMAND_EXPIRED */
export async function awaitReply(client: BridgeClient, sent: CommandReport): Promise<CommandReport> {
  let report = sent
  while (report.state === 'SENT')
    report = CommandReport.parse(await client.get(devicePath(sent.device, `/commands/${sent.id}?waitS=${requestS}`)))
  const { device, state, reason, wish } = report
  if (state === 'DONE') return report
  const why = reason == null ? '' : `: ${reason}`
  if (state === 'REFUSED')
    throw new BrimError('COMMAND_REFUSED', `${device} refuses "${wish.type}"${why}`, {
      hint: `it may run an older release: "brim device show ${device}" shows which`,
    })
  throw new BrimError('COMMAND_EXPIRED', `"${wish.type}" expired before ${device} replied${why}`, {
    hint: `check with "brim device show ${device}" that it is connected, or give it longer with --timeout`,
  })
}

export async function readDevices(client: BridgeClient): Promise<DeviceLine[]> {
  return z.object({ devices: z.array(DeviceLine) }).parse(await client.get(deviceOperations.list.path)).devices
}
