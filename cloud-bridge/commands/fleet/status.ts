import { styleText } from 'node:util'
import { z } from 'zod'
import { BrimError } from '../../../core/kit/base/errors.ts'
import type { Io } from '../../../core/kit/base/io.ts'
import { off } from '../../../core/kit/base/setting-kinds.ts'
import { defineCommand, type OptionsOf } from '../../../core/kit/cli/command.ts'
import { bridgeOptions } from '../../../core/kit/login/bridge-access.ts'
import { fleetRowOf } from '../../../core/policy/fleet/fleet-row.ts'
import { bridgeFacts } from '../../../core/policy/fleet/unused.ts'
import { type FleetStatus, type FleetSummary, fleetOperations } from '../../../core/wire/protocol/http/devices.ts'
import type { Received } from '../bridge-client.ts'
import { bridgeClient } from '../bridge-client.ts'
import { stateNotes } from '../device/remote-command.ts'
import { labelOption, withLabels } from '../labels.ts'
import { watchBridge } from '../watch-bridge.ts'
import { layOutFleet, type Mood } from './table.ts'

const options = {
  watch: off.describe('repeat until Ctrl-C: redraws a terminal; elsewhere prints a new table after each change'),
  interval: z.number().min(0.1).default(2).describe('seconds between two updates with --watch'),
  label: labelOption,
  ...bridgeOptions,
}
type StatusOptions = OptionsOf<typeof options>

export const command = defineCommand({
  examples: [
    ['brim fleet status', 'once'],
    ['brim fleet status --watch', 'until Ctrl-C'],
    ['brim fleet status --label site=lab', 'part of the fleet'],
    ['brim fleet status --json | jq ".devices[] | select(.problems != [])"', 'for programs'],
  ],
  options,
  notes:
    `${stateNotes}\n` +
    'Usable: the bridge gives it work; "brim fleet doctor" says why not, and the command that fixes it.\n' +
    'SEEN: time since its last message. W: power. BAT: battery. °C: hottest zone; "!": clocks are throttled.\n' +
    'CPU, GPU: percent. UP, DOWN: measured link, bytes/s. TK/S: decoded tokens/s of its fastest model. –: unknown.\n' +
    'A column is left out when it is unknown for every device.',
  run: (given, io) => (given.watch ? watchStatus(given, io) : showStatus(given, io)),
})

/** Every figure of each device; only --json shows them. */
async function readStatus(given: StatusOptions, io: Io): Promise<Received<FleetStatus>> {
  const client = await bridgeClient(given, io)
  return withLabels(await client.call(fleetOperations.status, {}), given.label)
}

async function readSummary(given: StatusOptions, io: Io): Promise<FleetSummary> {
  const client = await bridgeClient(given, io)
  const summary = await client.call(fleetOperations.summary, {}).catch(async (error: unknown) => {
    if (!(error instanceof BrimError) || error.code !== 'REQUEST_INVALID') throw error
    // The bridge of an earlier release has no such path.
    const { raw, value } = await client.call(fleetOperations.status, {})
    const bridge = bridgeFacts(value, Date.now())
    return { raw, value: { ...value, devices: value.devices.map((device) => fleetRowOf(device, bridge)) } }
  })
  return withLabels(summary, given.label).value
}

async function showStatus(options: StatusOptions, io: Io): Promise<void> {
  if (options.json) io.out(JSON.stringify((await readStatus(options, io)).raw))
  else io.raw.out(`${textOf(await readSummary(options, io), options, io)}\n`)
}

async function watchStatus(given: StatusOptions, io: Io): Promise<void> {
  const redraws = io.outIsTty && !given.json
  let shown: string | undefined
  await watchBridge(io, given.interval * 1_000, async (onAnswer) => {
    const { text, content } = given.json ? await jsonUpdate(given, io) : await tableUpdate(given, io)
    onAnswer()
    if (redraws) io.raw.out(`\u001b[H\u001b[J${cutToHeight(text, io.outRows)}`)
    else if (content !== shown && given.json) io.out(text)
    else if (content !== shown) io.raw.out(`${shown === undefined ? '' : '\n'}${text}\n`)
    shown = content
    return false
  })
  // The shell's prompt starts on a new line.
  if (redraws) io.write('\n')
}

/** What is printed, and what makes it another one: figures that change with time alone do not. */
interface Update {
  readonly text: string
  readonly content: string
}

async function jsonUpdate(given: StatusOptions, io: Io): Promise<Update> {
  const { raw, value } = await readStatus(given, io)
  const devices = value.devices.map((device) => ({
    ...device,
    seenS: null,
    telemetry: device.telemetry && { ...device.telemetry, ageS: 0, at: '' },
  }))
  return { text: JSON.stringify(raw), content: JSON.stringify({ ...value, uptimeS: 0, devices }) }
}

async function tableUpdate(given: StatusOptions, io: Io): Promise<Update> {
  const summary = await readSummary(given, io)
  const devices = summary.devices.map((row) => ({ ...row, seenS: null }))
  return { text: textOf(summary, given, io), content: JSON.stringify(layOutFleet({ ...summary, uptimeS: 0, devices })) }
}

/** As many lines as the terminal has: lines scrolled out of it cannot be redrawn. */
function cutToHeight(text: string, rows: number | undefined): string {
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

/** With colours: `layOutFleet` lets nothing but letters, digits and punctuation through. */
function textOf(status: FleetSummary, { label }: StatusOptions, io: Io): string {
  const inColour = io.outIsTty && !io.env.NO_COLOR
  return layOutFleet(status, undefined, label !== undefined)
    .map(({ text, mood }) => {
      const colour = inColour ? colours[mood] : undefined
      return colour === undefined ? text : styleText(colour, text, { validateStream: false })
    })
    .join('\n')
}
