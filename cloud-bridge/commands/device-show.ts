import type { CommandModule } from 'yargs'
import { z } from 'zod'
import type { Io } from '../../core/base/io.ts'
import { bridgeClient, bridgeOptions } from './bridge-access.ts'
import { LogLine, textOf as logText } from './device-logs.ts'
import { age, bytes, compact, printable } from './figures.ts'
import { type AtBridge, labelsText } from './fleet-options.ts'
import { DeviceLine } from './fleet-table.ts'
import { devicePath, Given } from './order.ts'

const Details = z.looseObject({
  ...DeviceLine.shape,
  birth: z.number().nullish(),
  lastSeen: z.string().nullish(),
  agent: z.string().nullish(),
  modelId: z.string().nullish(),
  identity: z
    .looseObject({
      group: z.string(),
      status: z.string(),
      enrolledAt: z.string(),
      hardware: z.string().nullish(),
      clone: z.string().nullish(),
    })
    .nullish(),
  jobsUnderWay: z.array(z.looseObject({ id: z.string(), kind: z.string(), state: z.string(), attempt: z.number() })),
  commands: z.array(Given),
  log: z.array(LogLine),
})
type Details = z.infer<typeof Details>

/** `brim device show` */
export function showCommand(io: Io): CommandModule<object, AtBridge & { device: string }> {
  return {
    command: 'show <device>',
    describe: 'all that the bridge knows of a device: state, identity, labels, condition, jobs, commands, errors',
    builder: (yargs) =>
      yargs
        .options(bridgeOptions)
        .usage('Usage: brim device show <device> [options]')
        .example('brim device show jetson-01', 'for people')
        .example('brim device show jetson-01 --json | jq .telemetry.power', 'for programs')
        .positional('device', { type: 'string', demandOption: true, describe: 'its name in the list' }),
    handler: async (options) => {
      const raw = await (await bridgeClient(options, io)).get(devicePath(options.device))
      io.out(options.json ? JSON.stringify(raw) : linesOf(Details.parse(raw)).map(printable).join('\n'))
    },
  }
}

function linesOf(device: Details): string[] {
  const { id, state, birth, lastSeen, seenS, agent, modelId, labels, problems, identity, telemetry } = device
  const said = identity ? `${identity.status}, group ${identity.group}, enrolled ${identity.enrolledAt}` : 'not enrolled here'
  const { jobsUnderWay, commands, log } = device
  return [
    id,
    ...rows({
      state: state === null ? 'never heard of' : `${state}, last heard of ${age(seenS)} ago (state since ${lastSeen})`,
      birth,
      agent,
      model: modelId,
      labels: labelsText(labels) || 'none',
      identity: said,
      machine: identity?.hardware,
      ...(identity?.clone ? { clone: `also used by ${identity.clone}: a cloned image` } : {}),
      problems: problems.map(({ kind, detail }) => (detail === '' ? kind : `${kind} (${detail})`)).join(', ') || 'none',
    }),
    ...(telemetry ? sectionsOf(telemetry) : ['', 'condition', '  unknown: this bridge has heard no telemetry since it started']),
    ...listed('jobs under way', jobsUnderWay, (job) => `${job.id}  ${job.kind}  ${job.state}  attempt ${job.attempt}`),
    ...listed(
      'commands, the latest first',
      commands,
      ({ at, wish, state, actor, reason }) => `${at}  ${wish.type}  ${state}  by ${actor}${reason == null ? '' : `: ${reason}`}`,
    ),
    ...listed('log, warnings and errors', log, logText),
  ]
}

function listed<T>(title: string, all: readonly T[], text: (one: T) => string): string[] {
  return ['', title, ...(all.length === 0 ? ['  none'] : all.map((one) => `  ${text(one)}`))]
}

const leastWidth = 20
function rows(values: Record<string, unknown>): string[] {
  const width = Math.max(leastWidth, ...Object.keys(values).map((name) => name.length))
  return Object.entries(values).map(([name, value]) => `  ${name.padEnd(width)} ${plain(name, value)}`)
}

/** In the order in which people ask. */
const order = [
  'device',
  'load',
  'power',
  'temperatures',
  'throttling',
  'battery',
  'fan',
  'memory',
  'disk',
  'link',
  'network',
  'speed',
  'answers',
]
/** Said elsewhere. */
const beside = ['ageS', 'at', 'birth', 'errors']

/** Every section of the telemetry, also those of newer devices, with units that people read. */
function sectionsOf(telemetry: NonNullable<Details['telemetry']>): string[] {
  const all: Record<string, unknown> = telemetry
  const names = [...order, ...Object.keys(all).filter((name) => !order.includes(name) && !beside.includes(name))]
  const errors = telemetry.errors ?? []
  // What stands in no section of its own.
  const loose = Object.fromEntries(names.flatMap((name) => (isFigure(all[name]) ? [[name, all[name]]] : [])))
  return [
    ...(Object.keys(loose).length === 0 ? [] : ['', 'telemetry', ...rows(loose)]),
    ...names.flatMap((name) => {
      const section = all[name]
      if (section === undefined || isFigure(section)) return []
      const figures = rows(flat((section ?? {}) as Record<string, unknown>))
      // There is no such part, or no connection.
      return ['', name, ...(figures.length === 0 ? ['  none'] : figures)]
    }),
    ...listed('errors since its start, the newest first', errors, ({ code, at, count }) => `${at}  ${code}  ${count} ×`),
  ]
}

const isFigure = (value: unknown) => value !== undefined && value !== null && typeof value !== 'object'

/** Figures of a section; those of a part of it under its name. */
function flat(section: Record<string, unknown>, prefix = ''): Record<string, unknown> {
  return Object.fromEntries(
    Object.entries(section).flatMap(([name, value]) =>
      typeof value === 'object' && value !== null && !Array.isArray(value)
        ? Object.entries(flat(value as Record<string, unknown>, `${prefix}${name} `))
        : [[`${prefix}${name}`, value]],
    ),
  )
}

/** By the unit that ends a figure's name, or that of the record it stands in. */
const unitOf: readonly (readonly [RegExp, (value: number) => string])[] = [
  [/BytesPerS\b/, (value) => `${compact(value)}B/s`],
  [/Bytes\b/, bytes],
  [/Percent\b/, (value) => `${Math.round(value)} %`],
  [/TokensPerS\b|tokensPerS\b/, (value) => `${compact(value)} tokens/s`],
  [/MbitPerS\b/, (value) => `${value} Mbit/s`],
  [/[a-z]MHz\b/, (value) => `${value} MHz`],
  [/uptimeS\b/, age],
  [/[a-z]Ms\b/, (value) => `${Number(value.toPrecision(3))} ms`],
  [/jPerToken\b/, (value) => `${Number(value.toPrecision(3))} J/token`],
  [/[a-z]C\b/, (value) => `${value.toFixed(1)} °C`],
  [/[a-z]W\b/, (value) => `${value.toFixed(1)} W`],
]

function plain(name: string, value: unknown): string {
  if (value === null || value === undefined) return 'unknown'
  if (typeof value === 'boolean') return value ? 'yes' : 'no'
  if (Array.isArray(value)) return value.length === 0 ? 'none' : value.join(', ')
  if (typeof value !== 'number') return String(value)
  const [, text] = unitOf.find(([unit]) => unit.test(name)) ?? []
  return text ? text(value) : String(value)
}
