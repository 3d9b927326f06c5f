import { randomBytes } from 'node:crypto'
import type { Store } from '../../core/kit/store/open-database.ts'

/** The name before the number in the ids of jobs, from this number on. */
interface JobName {
  readonly fromN: number
  readonly name: string
}

const newName = () => randomBytes(4).toString('hex')

/**
 * The names of a job database, which make ids of its numbers: a device never takes a job of another database for one of this.
 * @param store has `jobTables`
 */
export function openJobNames(store: Store) {
  store.prepare('INSERT INTO job_names (from_n, name) SELECT 0, ? WHERE NOT EXISTS (SELECT * FROM job_names)').run(newName())
  const names = store.prepare<[], JobName>('SELECT from_n AS fromN, name FROM job_names ORDER BY from_n DESC').all()
  const nameOf = (n: number) => names.find(({ fromN }) => n >= fromN)?.name
  return {
    idOf: (n: number): string => `${nameOf(n)}-${n}`,
    /** Undefined: not an id of this database. */
    numberOf(id: string): number | undefined {
      const [name, digits] = id.split('-')
      if (digits === undefined || !/^\d{1,15}$/.test(digits)) return undefined
      return nameOf(Number(digits)) === name ? Number(digits) : undefined
    },
  }
}

/**
 * Gives the jobs from now on another name: the database is a copy, and devices may have executed jobs with the next numbers.
 * @param store has `jobTables`
 */
export function renameNewJobs(store: Store): void {
  store.prepare('INSERT OR REPLACE INTO job_names (from_n, name) SELECT coalesce(max(n), 0) + 1, ? FROM jobs').run(newName())
}
