import { createHash, timingSafeEqual } from 'node:crypto'

const digest = (text: string) => createHash('sha256').update(text).digest()

/** Whether two secrets are equal, in a time that does not depend on where they differ. */
export const isSameSecret = (given: string, own: string): boolean => timingSafeEqual(digest(given), digest(own))
