/** How many bytes the reports of devices may take in the bridge's database. */
export interface StorageLimits {
  /** Events of one attempt. */
  readonly attemptBytes: number
  /** Events and results of one device in a day of UTC. */
  readonly deviceBytesPerDay: number
}

/** What the bridge has stored so far. */
export interface StorageUse {
  /** Of the attempt. */
  readonly attemptBytes: number
  /** Of its device, today. */
  readonly dayBytes: number
}

/** Whether a further event may be stored; `full`: the limit that it exceeds. */
export type StorageVerdict = { readonly kind: 'stored' } | { readonly kind: 'full'; readonly limit: keyof StorageLimits }

export function judgeStorage(used: StorageUse, bytes: number, limits: StorageLimits): StorageVerdict {
  if (used.attemptBytes + bytes > limits.attemptBytes) return { kind: 'full', limit: 'attemptBytes' }
  if (used.dayBytes + bytes > limits.deviceBytesPerDay) return { kind: 'full', limit: 'deviceBytesPerDay' }
  return { kind: 'stored' }
}
