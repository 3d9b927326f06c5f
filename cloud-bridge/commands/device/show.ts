import { z } from 'zod'
import { visibleLine } from '../../../core/kit/base/visible-text.ts'
import { defineCommand } from '../../../core/kit/cli/command.ts'
import { bridgeOptions } from '../../../core/kit/login/bridge-access.ts'
import type { ShownComputing } from '../../../core/wire/protocol/computing.ts'
import { type DeviceDetails, type DeviceSmallModel, deviceOperations } from '../../../core/wire/protocol/http/devices.ts'
import { bridgeClient } from '../bridge-client.ts'
import { age, bytes, compact } from '../figures.ts'
import { labelsText } from '../labels.ts'
import { deviceLogText } from './logs.ts'
import { cloneText, deviceOption } from './remote-command.ts'

export const command = defineCommand({
  examples: [
    ['brim device show jetson-01', 'as text'],
    ['brim device show jetson-01 --json | jq .telemetry.power', 'one figure, for programs'],
  ],
  options: {
    device: deviceOption,
    all: z.boolean().default(false).describe('also print figures that are unknown and lists that are empty'),
    ...bridgeOptions,
  },
  async run({ device, json, all, ...options }, io) {
    const client = await bridgeClient(options, io)
    const { raw, value } = await client.call(deviceOperations.show, { params: { id: device } })
    if (json) return io.out(JSON.stringify(raw))
    // A newer bridge may send further sections.
    const { telemetry } = raw as { readonly telemetry: Readonly<Record<string, unknown>> | null }
    io.out(linesOf(value, telemetry, all).map(visibleLine).join('\n'))
  },
})

/** @param all also what is unknown or empty */
function linesOf(device: DeviceDetails, telemetry: Readonly<Record<string, unknown>> | null, all: boolean): string[] {
  const { id, state, birth, lastSeen, seenS, agent, modelId, computing, labels, problems, identity } = device
  const enrolment = identity
    ? `${identity.status}, group ${identity.group}, enrolled ${identity.enrolledAt}`
    : 'not enrolled here'
  const { jobsUnderWay, commands, log, smallModels } = device
  return [
    id,
    ...rows(
      {
        state: state === null ? 'never connected' : `${state}, last message ${age(seenS)} ago (state since ${lastSeen})`,
        starts: birth,
        agent,
        model: modelId,
        'LLM on': computing?.llm && onText(computing.llm),
        'SLM on': computing?.slm && onText(computing.slm),
        labels: labelsText(labels) || 'none',
        identity: enrolment,
        ...(identity ? { 'key expires': identity.keyExpiresAt ?? 'never' } : {}),
        machine: identity?.hardware,
        ...(identity?.clone ? { clone: cloneText(identity.clone) } : {}),
        problems: problems.map(({ kind, detail }) => (detail === '' ? kind : `${kind} (${detail})`)).join(', ') || 'none',
      },
      all,
    ),
    ...(telemetry
      ? sectionsOf(telemetry, device.telemetry?.errors, all)
      : ['', 'telemetry', '  none received since the bridge started']),
    ...listed(all, 'small models', smallModels, smallModelText),
    ...listed(all, 'jobs under way', jobsUnderWay, (job) => `${job.id}  ${job.kind}  ${job.state}  attempt ${job.attempt}`),
    ...listed(
      all,
      'commands, the newest first',
      commands,
      ({ at, wish, state, actor, reason }) => `${at}  ${wish.type}  ${state}  by ${actor}${reason == null ? '' : `: ${reason}`}`,
    ),
    ...listed(all, 'log, warnings and errors', log, deviceLogText),
  ]
}

const onText = ({ provider, reason }: ShownComputing) => `${provider}: ${reason}`

/** As profiled, corrected by what it has expanded since. */
function smallModelText({ model, ttftMs, tpotMs, loadMs, parallel, slowdown, runs, confidence }: DeviceSmallModel): string {
  const ms = (value: number) => `${Number(value.toPrecision(3))} ms`
  const parts = [
    `${ms(slowdown * tpotMs)}/token`,
    `first token ${ms(slowdown * ttftMs)}`,
    `opens in ${ms(loadMs)}`,
    ...parallel.slice(-1).map(([sequences, speedup]) => `${Number(speedup.toPrecision(2))} × with ${sequences} sequences`),
    `${runs} ${runs === 1 ? 'expansion' : 'expansions'}`,
    ...(confidence === null ? [] : [`confidence ${confidence.toFixed(2)}`]),
  ]
  return `${model}  ${parts.join(', ')}`
}

function listed<T>(showEmpty: boolean, title: string, items: readonly T[], text: (item: T) => string): string[] {
  if (items.length === 0) return showEmpty ? ['', title, '  none'] : []
  return ['', title, ...items.map((item) => `  ${text(item)}`)]
}

const minWidth = 20
/** A line for each value; unknown ones only where `all` is set. */
function rows(values: Record<string, unknown>, all: boolean): string[] {
  const shown = Object.entries(values).filter(([, value]) => all || (value !== null && value !== undefined))
  const titles = shown.map(([name]) => titleOf(name))
  const width = Math.max(minWidth, ...titles.map((title) => title.length))
  return shown.map(([name, value], at) => `  ${titles[at]!.padEnd(width)} ${plain(name, value)}`)
}

/** The order in which sections are shown. */
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
  'spending',
]
const shownElsewhere = ['ageS', 'at', 'birth', 'errors']

/** Every section of the telemetry, with readable units. */
function sectionsOf(
  telemetry: Readonly<Record<string, unknown>>,
  errors: NonNullable<DeviceDetails['telemetry']>['errors'] = [],
  all: boolean,
): string[] {
  const names = [...order, ...Object.keys(telemetry).filter((name) => !order.includes(name) && !shownElsewhere.includes(name))]
  // Figures outside any section.
  const loose = Object.fromEntries(names.flatMap((name) => (isFigure(telemetry[name]) ? [[name, telemetry[name]]] : [])))
  return [
    ...(Object.keys(loose).length === 0 ? [] : ['', 'telemetry', ...rows(loose, all)]),
    ...names.flatMap((name) => {
      const section = telemetry[name]
      if (section === undefined || isFigure(section)) return []
      const figures = rows(flat((section ?? {}) as Record<string, unknown>), all)
      if (figures.length > 0) return ['', titleOf(name), ...figures]
      // The device has no such part, or no connection.
      return all ? ['', titleOf(name), '  none'] : []
    }),
    ...listed(
      all,
      'errors since the agent started, the newest first',
      errors,
      ({ code, at, count }) => `${at}  ${code}  ${count} ×`,
    ),
  ]
}

const isFigure = (value: unknown) => value !== undefined && value !== null && typeof value !== 'object'

/** Figures of a section; nested ones are prefixed with the name of their group. */
function flat(section: Record<string, unknown>, prefix = ''): Record<string, unknown> {
  return Object.fromEntries(
    Object.entries(section).flatMap(([name, value]) =>
      typeof value === 'object' && value !== null && !Array.isArray(value)
        ? Object.entries(flat(value as Record<string, unknown>, `${prefix}${name} `))
        : [[`${prefix}${name}`, value]],
    ),
  )
}

/** Text by the unit at the end of a figure's name, or of the record that holds it. */
const unitOf: readonly (readonly [RegExp, (value: number) => string])[] = [
  [/BytesPerS\b/, (value) => `${compact(value)}B/s`],
  [/[bB]ytes\b/, bytes],
  [/Percent\b/, (value) => `${Math.round(value)} %`],
  [/[tT]okensPerS\b/, (value) => `${compact(value)} tokens/s`],
  [/MbitPerS\b/, (value) => `${value} Mbit/s`],
  [/(?<=[a-z])MHz\b/, (value) => `${value} MHz`],
  [/(?<=[a-z])Ms\b/, (value) => `${Number(value.toPrecision(3))} ms`],
  [/[dD]ollars\b/, (value) => `$${Number(value.toPrecision(3))}`],
  [/[dD]ollarsPerToken\b/, (value) => `$${Number((1e6 * value).toPrecision(3))} per million tokens`],
  [/[dD]ollarsPerJoule\b/, (value) => `$${Number((3.6e6 * value).toPrecision(3))} per kWh`],
  [/[jJ]oules\b/, (value) => `${Number(value.toPrecision(3))} J`],
  [/[jJ]PerToken\b/, (value) => `${Number(value.toPrecision(3))} J/token`],
  [/(?<=[a-z])S\b/, age],
  [/(?<=[a-z])C\b/, (value) => `${value.toFixed(1)} °C`],
  [/(?<=[a-z])W\b/, (value) => `${value.toFixed(1)} W`],
]

/** Of names that without their unit would be those of another figure. */
const wordOfUnit = (unit: string) => (unit === 'MHz' ? 'Clock' : '')
const acronyms = ['cpu', 'gpu', 'emc', 'rtt', 'os', 'ip', 'id', 'pwm', 'rpm', 'llm', 'slm', 'hat']
/** Names that are a unit only. */
const unitNames: Readonly<Record<string, string>> = {
  jPerToken: 'energy',
  bytes: 'size',
  tokensPerS: 'speed',
  dollars: 'cost',
  joules: 'energy',
  dollarsPerJoule: 'worth of energy',
  promptDollarsPerToken: 'price of prompts',
  outputDollarsPerToken: 'price of answers',
}

/** A figure's name as words, without its unit: 'hottestC' is 'hottest'. Names that devices chose stay as they are. */
function titleOf(name: string): string {
  return name
    .split(' ')
    .map((field) => {
      const [unit] = unitOf.find(([suffix]) => suffix.test(field)) ?? []
      // A unit that this release does not know, or a name that is no field's.
      if (unit === undefined && !/^[a-z]+(?:[A-Z][a-z]+)*$/.test(field)) return field
      const words = (unitNames[field] ?? (unit === undefined ? field : field.replace(unit, wordOfUnit)))
        .replace(/[A-Z]/g, (letter) => ` ${letter.toLowerCase()}`)
        .split(' ')
      return words.map((word) => (acronyms.includes(word) ? word.toUpperCase() : word)).join(' ')
    })
    .join(' ')
}

function plain(name: string, value: unknown): string {
  if (value === null || value === undefined) return 'unknown'
  if (typeof value === 'boolean') return value ? 'yes' : 'no'
  if (Array.isArray(value)) return value.length === 0 ? 'none' : value.join(', ')
  if (typeof value !== 'number') return String(value)
  const [, text] = unitOf.find(([unit]) => unit.test(name)) ?? []
  return text ? text(value) : String(value)
}
