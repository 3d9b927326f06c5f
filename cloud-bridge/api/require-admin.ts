import { BrimError } from '../../core/kit/base/errors.ts'
import { allowsDowngrade, isForAdmins } from '../../core/wire/protocol/jobs.ts'
import type { Caller } from '../identity/authorizer.ts'

/**
 * The rule for whatever becomes a job: jobs, their retries, rollouts. As for administration, a key is needed even where nothing
 * else needs one, because what runs on the devices outlives that.
 * @throws BrimError FORBIDDEN
 */
export function requireAdminFor(kind: string, input: unknown, { key }: Caller): void {
  if (key?.role === 'admin' || !isForAdmins(kind, input)) return
  const what = kind === 'software.install' ? 'installs software on devices' : 'has devices install an older bundle'
  throw new BrimError('FORBIDDEN', `only an admin's key ${what}`, {
    hint: 'brim login with such a key; at the bridge, "brim bridge key create --role admin" creates one',
  })
}

/** For the audit log: whether devices may go back to older versions. */
export const downgradeOf = (input: unknown): { readonly allowDowngrade?: true } =>
  allowsDowngrade(input) ? { allowDowngrade: true } : {}
