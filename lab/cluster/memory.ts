import { readFileSync } from 'node:fs'

/** Resident memory of a process, and its peak so far. @returns null where /proc does not exist */
export function rssMb(pid: number): { readonly now: number; readonly peak: number } | null {
  try {
    const status = readFileSync(`/proc/${pid}/status`, 'utf8')
    const mb = (field: string) => Math.round(Number(new RegExp(`^${field}:\\s+(\\d+) kB`, 'm').exec(status)?.[1]) / 1_024)
    return { now: mb('VmRSS'), peak: mb('VmHWM') }
  } catch {
    return null
  }
}
