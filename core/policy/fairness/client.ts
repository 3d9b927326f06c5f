/**
 * The client among whom engine, queues and threads are shared, by the name of one of its users: what precedes the path. The client
 * chooses the names of its users, so that each of them must not have a share of its own.
 */
export const clientOf = (user: string): string => user.split('/', 1)[0]!
