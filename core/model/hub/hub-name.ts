import { BrimError } from '../../kit/base/errors.ts'

/** A model at the hub: `OWNER/NAME[@REVISION]`. */
export interface HubName {
  readonly owner: string
  readonly name: string
  /** A branch, a tag or a commit. */
  readonly revision: string
}

const word = String.raw`[A-Za-z0-9][\w.-]{0,95}`
const pattern = new RegExp(`^(${word})/(${word})(?:@([A-Za-z0-9][\\w./-]{0,199}))?$`)

/** @returns undefined for other texts, such as most paths */
export function readHubName(text: string): HubName | undefined {
  const [, owner, name, revision = 'main'] = pattern.exec(text) ?? []
  if (owner === undefined || name === undefined || revision.includes('..')) return undefined
  return { owner, name, revision }
}

/** @throws BrimError USAGE */
export function requireHubName(text: string): HubName {
  const name = readHubName(text)
  if (name) return name
  throw new BrimError('USAGE', `"${text}" is not the name of a model at the hub`, {
    hint: 'give OWNER/NAME or OWNER/NAME@REVISION, such as Qwen/Qwen2.5-0.5B-Instruct',
  })
}

export const repoOf = ({ owner, name }: HubName): string => `${owner}/${name}`
