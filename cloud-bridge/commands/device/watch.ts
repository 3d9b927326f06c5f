import { BrimError } from '../../../core/kit/base/errors.ts'
import type { Io } from '../../../core/kit/base/io.ts'
import { visibleLine } from '../../../core/kit/base/visible-text.ts'
import { defineCommand, type OptionsOf } from '../../../core/kit/cli/command.ts'
import { bridgeOptions } from '../../../core/kit/login/bridge-access.ts'
import { type Device, deviceOperations, type FleetEvent, fleetOperations } from '../../../core/wire/protocol/http/devices.ts'
import { bridgeClient } from '../bridge-client.ts'
import { bytes, compact, percent } from '../figures.ts'
import { labelOption, labelsText, matcherOf } from '../labels.ts'
import { watchBridge } from '../watch-bridge.ts'
import { deviceOption } from './remote-command.ts'

const retryMs = 1_000

const options = { device: deviceOption.optional().meta({ fallback: 'all' }), label: labelOption, ...bridgeOptions }
type WatchOptions = OptionsOf<typeof options>

export const command = defineCommand({
  examples: [
    ['brim device watch', 'all devices, until Ctrl-C'],
    ['brim device watch jetson-01 --json', 'one device, a JSON document per line'],
  ],
  options,
  run: watch,
})

/** Reconnects when a connection that had delivered something breaks. */
async function watch(given: WatchOptions, io: Io): Promise<void> {
  const matches = matcherOf(given.label)
  const client = await bridgeClient(given, io)
  const events = () =>
    given.device === undefined
      ? client.events(fleetOperations.events, {})
      : client.events(deviceOperations.events, { params: { id: given.device } })
  const broken = (cause?: unknown) => new BrimError('LINK_LOST', 'the connection to the bridge broke', { cause })
  await watchBridge(io, retryMs, async (onAnswer) => {
    try {
      for await (const { raw, value: change } of events()) {
        onAnswer()
        if (change.now && !matches(change.now)) continue
        io.out(given.json ? JSON.stringify(raw) : visibleLine(textOf(change)))
      }
    } catch (error) {
      throw error instanceof BrimError ? error : broken(error)
    }
    throw broken()
  })
}

function textOf({ type, device, at, now, command }: FleetEvent): string {
  const head = `${at}  ${device.padEnd(16)}  ${type.padEnd(9)}  `
  switch (type) {
    case 'commands':
      return `${head}${command?.wish.type} ${command?.state}${command?.reason == null ? '' : `: ${command.reason}`}`
    case 'labels':
      return `${head}${labelsText(now?.labels ?? {})}`
    case 'telemetry':
      return `${head}${conditionText(now)}`
    default:
      return `${head}${now?.state ?? 'never connected'}${type === 'device' && now?.telemetry ? `  ${conditionText(now)}` : ''}`
  }
}

/** The figures that change, in one line; unknown ones are left out. */
function conditionText(now: Device | null): string {
  const { power, temperatures, load, memory, battery, link } = now?.telemetry ?? {}
  const { problems, jobs } = now ?? {}
  const parts = [
    power?.totalW != null && `${compact(power.totalW)} W`,
    temperatures?.hottestC != null && `${Math.round(temperatures.hottestC)} °C`,
    load?.cpuPercent != null && `CPU ${percent(load.cpuPercent)} %`,
    load?.gpuPercent != null && `GPU ${percent(load.gpuPercent)} %`,
    memory?.freeBytes != null && `${bytes(memory.freeBytes)} free`,
    battery?.levelPercent != null && `battery ${percent(battery.levelPercent)} %`,
    link?.upBytesPerS != null && `up ${compact(link.upBytesPerS)}B/s`,
    link?.downBytesPerS != null && `down ${compact(link.downBytesPerS)}B/s`,
    jobs !== undefined && jobs > 0 && `${jobs} jobs`,
    ...(problems ?? []).map(({ kind, detail }) => `! ${kind}${detail === '' ? '' : ` (${detail})`}`),
  ]
  return parts.filter((part) => part !== false).join('  ')
}
