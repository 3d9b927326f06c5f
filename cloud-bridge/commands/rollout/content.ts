import { readFile } from 'node:fs/promises'
import { parse } from 'yaml'
import { z } from 'zod'
import { systemClock } from '../../../core/kit/base/clock.ts'
import { BrimError, orThrow } from '../../../core/kit/base/errors.ts'
import type { Io } from '../../../core/kit/base/io.ts'
import { off } from '../../../core/kit/base/setting-kinds.ts'
import { releaseOperations } from '../../../core/wire/protocol/http/releases.ts'
import type { BridgeClient } from '../bridge-client.ts'
import { readPackage } from '../bundle/package.ts'
import { publishPackage } from '../bundle/publish.ts'
import { versionOf } from '../bundle-version.ts'

/** Of what installs a bundle or a release. */
export const allowDowngrade = off.describe(
  'devices may go back to a lower number than they have had ("brim bundle sign --sequence"); for admins',
)

/** What a rollout installs. */
export const contentOptions = {
  model: z.string().optional().describe('bundle: its folder on this machine, or the id of a model that the bridge serves'),
  url: z.string().optional().meta({ description: 'bundle: URL of that folder', fallback: "the bridge's own bundles" }),
  activate: z.boolean().default(true).describe('bundle: the devices then answer with it; --no-activate: only install it'),
  set: z
    .array(z.string())
    .optional()
    .describe(
      'config: an option of "brim agent run" as name=value; repeat it. What a job set before and is not repeated is unset',
    ),
  settings: z.string().optional().describe('config: the options in a YAML file, one a line, in place of --set'),
  reset: off.describe('config: unset all that the fleet has set'),
  archive: z.string().optional().describe('software: the signed archive of a release, which is uploaded to the bridge'),
  release: z.string().optional().describe('software: sha256 of a release that the bridge has, in place of --archive'),
  allowDowngrade,
  probe: z
    .string()
    .default('Hello')
    .describe('question that a device must answer with what was installed; otherwise it returns to what it had. Empty: none'),
}
export type ContentOptions = z.output<z.ZodObject<typeof contentOptions>>

export const contentKinds = { bundle: 'bundle.install', config: 'config.apply', software: 'software.install' } as const
export type ContentKind = keyof typeof contentKinds

/** The options of one content say nothing about another. */
const ownOptions: Readonly<Record<ContentKind, readonly (keyof ContentOptions)[]>> = {
  bundle: ['model', 'url', 'activate'],
  config: ['set', 'settings', 'reset'],
  software: ['archive', 'release'],
}

/** The input of each device's job. @throws BrimError USAGE, MODEL_UNKNOWN, BUNDLE_INVALID */
export async function contentInputOf(what: ContentKind, given: ContentOptions, client: BridgeClient, io: Io): Promise<object> {
  for (const [other, names] of Object.entries(ownOptions))
    for (const name of names)
      if (other !== what && given[name] !== contentOptions[name].parse(undefined))
        throw new BrimError('USAGE', `--${name} is for ${other}, not for ${what}`)
  if (what === 'config' && given.allowDowngrade) throw new BrimError('USAGE', '--allow-downgrade is for bundle and software')
  const downgrade = given.allowDowngrade ? { allowDowngrade: true } : {}
  const probe = given.probe === '' ? {} : { probe: { prompt: given.probe } }
  switch (what) {
    case 'bundle': {
      const { model, url, activate } = given
      if (model === undefined) throw needs('--model <folder or id>', what)
      return { ...(await versionOf(model, client)), url, ...(activate && { activate, ...probe }), ...downgrade }
    }
    case 'config':
      return { settings: await settingsOf(given), ...probe }
    case 'software':
      return { ...(await releaseOf(given, client, io)), ...probe, ...downgrade }
    default:
      return what satisfies never
  }
}

/** The release that the bridge has, or that it gets now. */
async function releaseOf({ archive, release }: ContentOptions, client: BridgeClient, io: Io) {
  if ((archive === undefined) === (release === undefined))
    throw needs('either --archive <file> or --release <sha256>', 'software')
  if (archive !== undefined) {
    const found = await readPackage(archive)
    if (found.kind !== 'software') throw needs('the archive of a release, not the folder of a bundle', 'software')
    await publishPackage(client, found, { onUploaded: () => {}, clock: systemClock, signal: io.signal })
    return { version: found.version, archiveSha256: found.sha256 }
  }
  const { releases } = (await client.call(releaseOperations.list, {})).value
  const served = releases.find(({ sha256 }) => sha256 === release)
  if (served) return { version: served.version, archiveSha256: served.sha256 }
  throw new BrimError('MODEL_UNKNOWN', `the bridge has no release ${release}`, { hint: '"brim bundle list" lists its releases' })
}

async function settingsOf({ set, settings: file, reset }: ContentOptions): Promise<Record<string, unknown>> {
  const ways = [set !== undefined, file !== undefined, reset].filter(Boolean).length
  if (ways === 0) throw needs('--set <name=value>, --settings <file> or --reset', 'config')
  if (ways > 1) throw new BrimError('USAGE', '--set, --settings and --reset cannot be combined', { hint: 'give one of them' })
  if (file !== undefined) return readSettings(file)
  return Object.fromEntries(
    (set ?? []).map((text) => {
      const [, name, value] = /^([^=]+)=(.*)$/s.exec(text) ?? []
      if (name === undefined || value === undefined)
        throw new BrimError('USAGE', `--set ${text} is not of the form name=value`, { hint: 'for example --set log-level=debug' })
      return [name, parseYaml(value, `--set ${text}`)]
    }),
  )
}

async function readSettings(file: string): Promise<Record<string, unknown>> {
  const text = await readFile(file, 'utf8').catch((cause: unknown) => {
    throw new BrimError('USAGE', `${file} cannot be read`, { cause, hint: 'check the path' })
  })
  const settings = parseYaml(text, file)
  if (typeof settings === 'object' && settings !== null && !Array.isArray(settings)) return settings as Record<string, unknown>
  throw new BrimError('USAGE', `${file} must have lines like "log-level: debug"`, {
    hint: 'docs/configuration.md describes the form',
  })
}

function parseYaml(text: string, where: string): unknown {
  return orThrow(() => parse(text), 'USAGE', `${where} is not YAML`, 'docs/configuration.md describes the form')
}

const needs = (option: string, what: ContentKind) =>
  new BrimError('USAGE', `a rollout of ${what} needs ${option}`, { hint: 'brim rollout create --help has examples' })
