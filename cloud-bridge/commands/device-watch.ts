import type { CommandModule } from 'yargs'
import { z } from 'zod'
import { systemClock } from '../../core/base/clock.ts'
import { BrimError } from '../../core/base/errors.ts'
import type { Io } from '../../core/base/io.ts'
import { fleetPath } from '../api/fleet.ts'
import { bridgeClient, bridgeOptions } from './bridge-access.ts'
import { bytes, compact, percent, printable } from './figures.ts'
import { type AtBridge, labelOption, labelsText, matcherOf } from './fleet-options.ts'
import { DeviceLine } from './fleet-table.ts'
import { devicePath, Given } from './order.ts'

interface WatchOptions extends AtBridge {
  device?: string | undefined
  label?: string[] | undefined
}

const Change = z.looseObject({
  type: z.string(),
  device: z.string(),
  at: z.string(),
  now: DeviceLine.nullable(),
  command: Given.nullish(),
})

const tryAgainMs = 1_000

/** `brim device watch` */
export function watchCommand(io: Io): CommandModule<object, WatchOptions> {
  return {
    command: 'watch [device]',
    describe: 'what devices say of themselves, and what is ordered, as it comes; of one or of all',
    builder: (yargs) =>
      yargs
        .options(bridgeOptions)
        .usage('Usage: brim device watch [device] [options]')
        .example('brim device watch', 'everybody, until Ctrl-C')
        .example('brim device watch jetson-01 --json', 'one, a JSON document per line')
        .positional('device', { type: 'string', describe: 'its name in the list [all]' })
        .option('label', labelOption),
    handler: (options) => watch(options, io),
  }
}

async function watch(options: WatchOptions, io: Io): Promise<void> {
  const matches = matcherOf(options.label)
  const client = await bridgeClient(options, io)
  const path = options.device === undefined ? `${fleetPath}/events` : devicePath(options.device, '/events')
  const broken = (cause: unknown) => new BrimError('LINK_LOST', 'the connection to the bridge broke', { cause })
  let wasThere = false
  let isTold = false
  while (!io.signal.aborted) {
    try {
      for await (const raw of client.events(path)) {
        ;[wasThere, isTold] = [true, false]
        const change = Change.parse(raw)
        if (change.now && !matches(change.now)) continue
        io.out(options.json ? JSON.stringify(raw) : printable(textOf(change)))
      }
      throw broken(undefined)
    } catch (cause) {
      if (io.signal.aborted) return
      const error = cause instanceof BrimError ? cause : broken(cause)
      const mayReturn = error.code === 'LINK_LOST' || error.code === 'BRIDGE_UNREACHABLE'
      if (!wasThere || !mayReturn) throw error
      if (!isTold) io.err(`${error.message}; trying again`)
      isTold = true
    }
    await systemClock.sleep(tryAgainMs, io.signal).catch(() => {})
  }
}

function textOf({ type, device, at, now, command }: z.infer<typeof Change>): string {
  const head = `${at}  ${device.padEnd(16)}  ${type.padEnd(9)}  `
  switch (type) {
    case 'commands':
      return `${head}${command?.wish.type} ${command?.state}${command?.reason == null ? '' : `: ${command.reason}`}`
    case 'labels':
      return `${head}${labelsText(now?.labels ?? {})}`
    case 'telemetry':
      return `${head}${conditionText(now)}`
    default:
      return `${head}${now?.state ?? 'never heard of'}${type === 'device' && now?.telemetry ? `  ${conditionText(now)}` : ''}`
  }
}

/** What moves, in one line; what is unknown is left out. */
function conditionText(now: DeviceLine | null): string {
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
