import { z } from 'zod'
import { BrimError } from '../../core/base/errors.ts'
import type { CommandAction } from '../../core/protocol/commands.ts'
import { devicesPath } from '../api/fleet.ts'
import type { BridgeClient } from './bridge-client.ts'
import { DeviceLine } from './fleet-table.ts'

/** A command as the bridge tells of it. */
export const Given = z.looseObject({
  id: z.string(),
  device: z.string(),
  state: z.string(),
  reason: z.string().nullish(),
  wish: z.looseObject({ type: z.string() }),
  actor: z.string(),
  at: z.string(),
  expiresAt: z.string(),
})
export type Given = z.infer<typeof Given>

/** One question to the bridge lasts so long at most: proxies do not like longer ones. */
const askS = 20

export const devicePath = (device: string, rest = '') => `${devicesPath}/${encodeURIComponent(device)}${rest}`

/** @param expiresS the device does it by then, or never */
export async function give(client: BridgeClient, device: string, wish: CommandAction, expiresS: number): Promise<Given> {
  return Given.parse(await client.post(devicePath(device, '/commands'), { ...wish, expiresS }))
}

/** Waits until the device has answered, or the command has expired. @throws BrimError COMMAND_REFUSED, COMMAND_EXPIRED */
export async function acknowledged(client: BridgeClient, given: Given): Promise<Given> {
  let now = given
  while (now.state === 'SENT')
    now = Given.parse(await client.get(devicePath(given.device, `/commands/${given.id}?waitS=${askS}`)))
  const { device, state, reason, wish } = now
  if (state === 'DONE') return now
  const why = reason == null ? '' : `: ${reason}`
  if (state === 'REFUSED')
    throw new BrimError('COMMAND_REFUSED', `${device} refuses "${wish.type}"${why}`, {
      hint: 'does it run an older release? "brim device show" tells its version',
    })
  throw new BrimError('COMMAND_EXPIRED', `"${wish.type}" to ${device} has expired${why}`, {
    hint: `is it connected? "brim device show ${device}"; a longer --timeout waits for its return`,
  })
}

export async function readDevices(client: BridgeClient): Promise<DeviceLine[]> {
  return z.object({ devices: z.array(DeviceLine) }).parse(await client.get(devicesPath)).devices
}
