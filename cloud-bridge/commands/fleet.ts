import { styleText } from 'node:util'
import type { CommandModule } from 'yargs'
import { systemClock } from '../../core/base/clock.ts'
import { BrimError } from '../../core/base/errors.ts'
import type { Io } from '../../core/base/io.ts'
import { fleetPath } from '../api/fleet.ts'
import { bridgeClient, bridgeOptions } from './bridge-access.ts'
import { type AtBridge, labelOption, matcherOf } from './fleet-options.ts'
import { FleetStatus, layOutFleet, type Mood } from './fleet-table.ts'

interface StatusOptions extends AtBridge {
  watch: boolean
  interval: number
  label?: string[] | undefined
}

/** `brim fleet …` */
export function fleetCommand(io: Io): CommandModule {
  return {
    command: 'fleet <verb>',
    describe: 'all devices of a bridge together',
    builder: (yargs) =>
      yargs
        .usage('Usage: brim fleet <verb> [options]')
        .example('brim fleet status', 'how everybody fares, in 80 columns')
        .command(statusCommand(io))
        .demandCommand(1, 'say what to do with the fleet: brim fleet --help'),
    handler: () => {},
  }
}

function statusCommand(io: Io): CommandModule<object, StatusOptions> {
  return {
    command: 'status',
    describe: 'the bridge, what is wrong, and a line per device, the troubled first',
    builder: (yargs) =>
      yargs
        .options(bridgeOptions)
        .usage('Usage: brim fleet status [options]')
        .example('brim fleet status', 'once')
        .example('brim fleet status --watch', 'until Ctrl-C')
        .example('brim fleet status --label site=lab', 'a part of the fleet')
        .example('brim fleet status --json | jq ".devices[] | select(.problems != [])"', 'for programs')
        .option('watch', {
          type: 'boolean',
          default: false,
          describe: 'again and again; without a terminal, whenever it changes',
        })
        .option('interval', { type: 'number', requiresArg: true, default: 2, describe: 'seconds between two looks with --watch' })
        .option('label', labelOption)
        .epilogue(
          'SEEN: since it was last heard of. W: what it takes. BAT: battery. °C: its hottest zone; "!": its clocks are held down.\n' +
            'CPU, GPU: percent. UP, DOWN: the measured link, bytes/s. TK/S: tokens/s, decoding, of its fastest model. –: unknown.\n' +
            'Columns that nobody knows anything of are left out.',
        ),
    handler: (options) => (options.watch ? watchStatus(options, io) : showStatus(options, io)),
  }
}

async function read(options: StatusOptions, io: Io): Promise<{ status: FleetStatus; raw: object }> {
  const matches = matcherOf(options.label)
  const raw = (await (await bridgeClient(options, io)).get(fleetPath)) as { devices: { id: string }[] }
  const status = FleetStatus.parse(raw)
  const devices = status.devices.filter(matches)
  const ids = new Set(devices.map(({ id }) => id))
  return { status: { ...status, devices }, raw: { ...raw, devices: raw.devices.filter(({ id }) => ids.has(id)) } }
}

async function showStatus(options: StatusOptions, io: Io): Promise<void> {
  const { status, raw } = await read(options, io)
  io.out(options.json ? JSON.stringify(raw) : textOf(status, options, io))
}

async function watchStatus(options: StatusOptions, io: Io): Promise<void> {
  if (!(options.interval >= 0.1)) throw new BrimError('USAGE', '--interval is at least 0.1 s')
  const redraws = io.outIsTty && options.json !== true
  let told: string | undefined
  let trouble: string | undefined
  while (!io.signal.aborted) {
    try {
      const { status, raw } = await read(options, io)
      const now = JSON.stringify(options.json ? timeless(status) : layOutFleet(timeless(status)))
      if (redraws) io.write(`\u001b[H\u001b[J${fitted(textOf(status, options, io), io.outRows)}`)
      else if (now !== told)
        io.out(options.json ? JSON.stringify(raw) : `${told === undefined ? '' : '\n'}${textOf(status, options, io)}`)
      told = now
      trouble = undefined
    } catch (error) {
      // One that was there may be back soon.
      if (io.signal.aborted) break
      if (told === undefined || !(error instanceof BrimError) || error.code !== 'BRIDGE_UNREACHABLE') throw error
      if (trouble !== error.message) io.err(`${error.message}; trying again`)
      trouble = error.message
    }
    await systemClock.sleep(options.interval * 1_000, io.signal).catch(() => {})
  }
  // What is typed next shall not stand behind the last line.
  if (redraws) io.write('\n')
}

/** What is worth another table: not that time has passed. */
const timeless = (status: FleetStatus): FleetStatus => ({
  ...status,
  uptimeS: 0,
  devices: status.devices.map((device) => ({
    ...device,
    seenS: null,
    telemetry: device.telemetry && { ...device.telemetry, ageS: 0, at: '' },
  })),
})

/** As much as the terminal shows: what is above its edge could not be drawn over. */
function fitted(text: string, rows: number | undefined): string {
  const lines = text.split('\n')
  if (rows === undefined || lines.length <= rows) return text
  return [...lines.slice(0, rows - 1), `… ${lines.length - rows + 1} more`].join('\n')
}

const colours: Readonly<Record<Mood, Parameters<typeof styleText>[0] | undefined>> = {
  bad: 'red',
  warning: 'yellow',
  quiet: 'dim',
  plain: undefined,
}

function textOf(status: FleetStatus, { label }: StatusOptions, io: Io): string {
  const inColour = io.outIsTty && !io.env.NO_COLOR
  return layOutFleet(status, undefined, label !== undefined)
    .map(({ text, mood }) => {
      const colour = inColour ? colours[mood] : undefined
      return colour === undefined ? text : styleText(colour, text, { validateStream: false })
    })
    .join('\n')
}
