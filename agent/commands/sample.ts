import { tmpdir } from 'node:os'
import type { CommandModule } from 'yargs'
import { type Clock, systemClock } from '../../core/base/clock.ts'
import { BrimError } from '../../core/base/errors.ts'
import type { Io } from '../../core/base/io.ts'
import { createLogger } from '../../core/base/logger.ts'
import { openHost } from '../device/host.ts'
import type { Sample } from '../device/sample.ts'
import { createSampler } from '../device/sampler.ts'

interface SampleOptions {
  count: number
  every: number
  root: string
  json?: boolean | undefined
}

const shownMs = 1_000

/** `brim agent sample`: the device as its telemetry would show it. */
export function sampleCommand(io: Io): CommandModule<object, SampleOptions> {
  return {
    command: 'sample',
    describe: "what this device's telemetry says of it, now",
    builder: (yargs) =>
      yargs
        .usage('Usage: brim agent sample [options]')
        .example('brim agent sample', 'what is known of this device; null: not known here')
        .example('brim agent sample --count 100 --json', 'what looking costs, too')
        .option('count', { type: 'number', default: 1, describe: 'look so often, without a pause, and tell what a look costs' })
        .option('every', { type: 'number', default: 10, describe: 'as if so many seconds lay between two looks' })
        .option('root', { type: 'string', default: '/', describe: 'a folder that stands for /, as of another device' }),
    handler: ({ json, ...options }) => look(options, json === true, io),
  }
}

async function look({ count, every, root }: SampleOptions, json: boolean, io: Io): Promise<void> {
  if (!(Number.isInteger(count) && count >= 1)) throw new BrimError('USAGE', '--count is a whole number of 1 or more')
  if (!(every > 0)) throw new BrimError('USAGE', '--every is a number of seconds above 0')
  const clock = skippingClock()
  const logger = createLogger('warn', { component: 'device' })
  const sampler = createSampler({ host: openHost(root), clock, logger, stateDir: tmpdir() })
  // What is read once, and code that is run for the first time, is no cost of the next look.
  let sample = await sampler.sample(io.signal)
  const before = process.cpuUsage()
  for (let n = 0; n < count; n++) {
    io.signal.throwIfAborted()
    // Loads are those of the time between two looks: what is shown to somebody shall be real.
    if (count === 1) await clock.sleep(shownMs, io.signal)
    else clock.skip(every * 1_000)
    sample = await sampler.sample(io.signal)
  }
  const { user, system } = process.cpuUsage(before)
  const cpuMs = Number(((user + system) / 1_000 / count).toPrecision(3))
  const percentOfCore = Number((cpuMs / (10 * every)).toPrecision(3))
  io.out(json ? JSON.stringify({ sample, count, cpuMs, percentOfCore }) : text(sample, cpuMs, percentOfCore, every))
}

const text = (sample: Sample, cpuMs: number, percentOfCore: number, every: number) =>
  `${JSON.stringify(sample, null, 2)}\n${cpuMs} ms of CPU: ${percentOfCore} % of a core every ${every} s`

/** Time goes by as it does, and at once where it is told to. */
function skippingClock(): Clock & { skip(ms: number): void } {
  let skippedMs = 0
  return {
    nowMs: () => systemClock.nowMs() + skippedMs,
    sleep: systemClock.sleep,
    skip(ms) {
      skippedMs += ms
    },
  }
}
