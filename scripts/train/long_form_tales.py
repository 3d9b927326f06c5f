"""What the tales of long_form.py say: heroes, traits, places, things, helpers, enemies and endings, a line of phrases each.

{he}, {him}, {his} and {He} are the hero's. The heroes also continue the openings of real stories, see `HEROES_IN_STORIES`.
"""

# name | pronoun | work | where the hero was at night | food for the road
HEROES = """
king | he | He had so many rooms that he had not been in all of them | at the hunt | a cake on a gold plate
queen | she | She had a hundred servants and did not know the name of any of them | at a ball | a white roll and wine
prince | he | He could ride and fight, but he could not so much as boil an egg | with the horses | a cold goose
princess | she | She had to sit by a window with her needle from morning until evening | in the chapel | sugar in a silver box
shepherd | he | He went with his sheep over the hills and was not at home for weeks | with a sick lamb | cheese and an onion
miller | he | He was white with flour from his head to his feet | at the wheel | bread that was two days old
fisherman | he | He went out in his boat before it was light and came back when it was dark | on the water | a dried fish
maid | she | She had to carry wood and water for others until her hands were red | at the well | a crust and an egg
tailor | he | He could sew a coat in one night, but it was never for himself | at the market | a sausage in paper
widow | she | She had nothing but a goat and a field that was full of stones | in the church | a bag of nuts
boy | he | He had to look after the geese for a farmer who never paid him | up in a tree | three apples
girl | she | She could climb up any tree and whistle like a bird | with her aunt | a jar of honey
soldier | he | He had come home from the war with a wooden leg | at the inn | a hard biscuit
old woman | she | She knew an herb for every pain but her own | at a sick bed | soup in a can
old man | he | He had seen so much in his life that he could not sleep | by the grave of his wife | tobacco and bread
fox | he | He had been after the same hen for as long as he could think | in the hen house | a mouse in a leaf""".strip()

# adjective | how it shows | what the hero does about the loss | the moral
TRAITS = """
brave | {He} was not afraid of anything that goes about on two legs or on four. | {He} did not wait until it was light, but went out after it in the dark. | Whoever is brave will find that the dark is only dark.
lazy | {He} would have stayed in bed until noon if they had let {him}. | {He} lay there for two days before {he} would so much as look for {his} shoes. | Even one who is lazy can do it if it is for what he loves.
proud | {He} would not speak with anyone who was not as rich as a lord. | {He} said that no one should laugh at {him}, and so {he} told them that {he} was only going for a walk. | Pride is of no use when you have to ask for help.
kind | {He} never ate without giving some of it to whoever came to the door. | {He} thought that the one who took it must be even poorer, but {he} went to look for it all the same. | What you give to others will be there for you when you need it.
clever | {He} could find a way out of whatever {he} had come into. | {He} sat down and drew a map of all that {he} knew, and only then did {he} go. | It is better to think for an hour than to run for a day.
curious | {He} had to look into every box and behind every door that there was. | {He} followed the steps in the sand, because {he} wanted to know where they would end. | Those who ask will be told, and those who look will find.
quiet | {He} did not say more than ten words from one Sunday to the next. | {He} put a letter on the table and went out without a word. | Much can be done by those of whom nothing is heard.
greedy | {He} counted {his} coins every night, and never thought that there were enough of them. | {He} offered a reward for it at first, but then {he} thought of what it would cost and went out {him}self. | What we want to keep for ourselves is what we lose first.""".strip()

# place | what it is like there | how the hero is received
PLACES = """
in the mountains | There the snow lay in front of the doors until June, and the nearest neighbor was a day away. | All of the bells in the mountains rang when they saw {him} on the path.
by the sea | There the wind was so strong that the trees all grew to one side. | The boats came out to meet {him}, and each of them had a lamp.
at the edge of a dark forest | There one could hear the wolves at night, and no one went out without a light. | Even the forest was not so dark as it had been before.
in a small village | There everyone knew what was in the pots of all the others. | The whole village stood in the street and threw their hats into the air.
in a big city | There so many people lived that they did not greet each other. | In the city no one had known that {he} was away, but the dogs were glad to see {him}.
on an island | There was only one road on it, and at both of its ends there was water. | The island was so small that all of them had seen {him} from the beach.
on a lonely farm | There were more cows than people there, and more stars than cows. | The cows on the farm had not been milked for days, and they were the first to cry out for {him}.
in an old castle | There were rats in the hall, and the rain came in where the flag should have been. | In the castle they lit a fire that could be seen for miles.""".strip()

# thing | why it is loved | what comes of it
THINGS = """
a golden ring | it had been given to {him} by {his} mother on the day before she died | the ring was warm, as if it had been on a hand all of that time
a silver bell | one could hear in it the voices of all those who were far away | the bell rang by itself for three days
a white horse | it would let no one but {him} come near it | the horse laid its head on {his} shoulder
a magic lamp | it gave as much light as one needed and never any more | the lamp was brighter than it had been before
a red coat | with it on one was never cold, not even in January | the coat still smelled of smoke
an old book | in it there was written all that would happen in that year | there was a new page at the end of the book
a little bird | it sang to {him} in the morning what {he} had dreamed at night | the bird had learned a new song while it was away
a bag of gold | it was all that {he} had saved in twenty years | there was even more in the bag than there had been before
a blue stone | if one looked through it, one could see who told the truth | the stone shone like the eye of a cat
a wooden flute | whoever heard it had to dance, and could not stop until it did | the flute played on without anyone at it""".strip()

# helper | meeting | wish | advice | help in the fight
HELPERS = """
a talking fox | On the road {he} met a fox that had been caught by its tail and could speak like one of us. | The fox asked for a bone, and got all that there was in {his} bag. | You should go in at the back, said the fox, for that is where no one looks. | The fox ran between their feet until there was no up and no down any more.
an old beggar | By a bridge there sat a beggar with whom no one else would speak. | He asked {him} to sit by him for a while, and so {he} did. | Do not eat and do not drink of what you find there, said the beggar. | The beggar stood there all at once and held the door from the outside.
a blackbird | On a fence there was a blackbird with a thorn in its wing. | {He} pulled out the thorn with {his} teeth and let it drink from {his} hand. | Be there when the clock strikes twelve, sang the blackbird, and not before. | The blackbird took the key out of the lock and dropped it into the well.
a tiny mouse | In a hole under a root {he} found a mouse that was wet through and through. | {He} dried it with {his} shirt and put it into {his} pocket. | It is not so big as it looks, said the mouse, if you are as small as I am. | The mouse bit through the rope on which everything hung.
a wise fish | In a pool that was almost dry there was a fish as old as the hills. | {He} carried it to the river in {his} hat, and it was very heavy. | Ask it for its name, said the fish, for it does not know that itself. | The fish made the river rise until it came in under the door.
a girl in a green dress | Under an oak there stood a girl in a green dress, and there was no shadow behind her. | She wanted a hair from {his} head, and {he} gave it to her. | Whatever it says to you, answer with a question, said the girl. | The girl laughed, and wherever she laughed there grew a wall of leaves.
a broken snowman | At the side of the path there was a snowman who had lost his nose. | {He} gave him one of {his} buttons for it, so that he could smell again. | Cold does more than fire, said the snowman, if you can wait for it. | The snowman blew once, and everything that was wet turned into ice.
a blind musician | At an inn there was a blind musician for whom no one would pay. | {He} put {his} last coin into his hat and listened to him until the morning. | You must shut your eyes, said the musician, and then you will be the one who can see. | The musician played so sadly that even the stones began to weep.""".strip()

# enemy | how it takes the thing | where it lives | how it is beaten
ENEMIES = """
a giant | a giant put his arm in through the roof | The giant lived on top of a rock, and what he had for dinner was whoever came up to him. | The giant bent down so low that he fell over his own beard, and could not get up again.
a witch | a witch came down the chimney with her broom | The witch had a house with legs on it, so that it was never where it had been. | The witch looked into her own mirror and forgot what she had been about to say.
a troll | a troll dug his way in from below | The troll lived under a bridge, where it was too dark for him to count his own toes. | The troll stayed out until the sun came up, and from then on he was a stone.
a dragon | a dragon flew off with it between its teeth | The dragon had a cave from which smoke came by day and by night. | The dragon was so hot that it drank the whole lake, and it could not fly any more.
a wicked uncle | a wicked uncle took it away under his coat | The uncle sat in a tower with seven locks, for he was afraid of everyone. | The uncle had so many keys that he could not find the right one before they had him.
a gang of thieves | a gang of thieves came in through the cellar | The thieves lived in a mill that had been empty since the war. | The thieves began to fight over who should have it, and in the end they all ran away.
the north wind | the north wind blew the door open and took it along | The north wind was at home behind the last hill, where there is nothing but white. | The north wind had to laugh, and a wind that laughs cannot hold on to anything.
a water spirit | a water spirit drew it down with his long wet fingers | The spirit had a palace of glass under the lake, and all that had ever been lost was in it. | The spirit came too far out of the water, and then he was no more than a green puddle.""".strip()

# request | first sentence | second sentence
ENDINGS = """
a happy ending | From that day on {he} was as happy as one can be without being a fool. | And if they have not died since then, they are all still alive.
a sad ending | But it was too late for {him} to be happy with it, for {he} had become old on the way. | They laid it beside {him} when {he} died, and the grass has been high there ever since.
a wedding at the end | Before the year was out there was a wedding, and all who had helped were at it. | I was there myself, and what I have told you is what I heard at the table.
a funny ending | And then {he} put it down somewhere and could not find it again. | If you should see it, then please do not tell {him} before Sunday.
a surprise at the end | But when {he} woke up, {he} was in {his} own bed and it had been there all the time. | Only {his} shoes were wet, and to this day no one can say why.
a feast at the end | On that evening they all ate and drank until there was not so much as a crumb left. | Those who came too late had to make do with the story of it.""".strip()

# Key words by which a hero is found in the opening of a real story, the first that occurs.
HEROES_IN_STORIES = {
    "king": "king", "queen": "queen", "prince": "prince", "princess": "princess", "shepherd": "shepherd", "miller": "miller",
    "fisherman": "fisherman", "maid": "maid", "maiden": "maid", "servant": "maid", "tailor": "tailor", "widow": "widow", "boy": "boy",
    "lad": "boy", "son": "boy", "child": "girl", "girl": "girl", "daughter": "girl", "lady": "princess", "soldier": "soldier",
    "woman": "old woman", "wife": "old woman", "mother": "old woman", "witch": "old woman", "man": "old man", "father": "old man",
    "farmer": "old man", "husband": "old man", "fox": "fox", "wolf": "fox", "cat": "fox", "dog": "fox", "bear": "fox", "bird": "fox",
}  # fmt: skip

# A tale: the shortest answer that has the sentence (S short, N normal, L long) and the sentence.
TALE = """
S Once upon a time there was a {trait} {hero} who lived {place}.
N {landscape}
S {habit}
L {work}.
S What {he} loved more than all the rest was {thing}, because {why}.
S But one night, when {he} was {away}, {took}, and when {he} came back it was not there any more.
L {lair}
N {decision}
L All that {he} had with {him} was {food}, and {he} did not know how far it would be.
S {meeting}
N {wish}
S {advice}
S {beaten}
N {help}
S So it came about that {he} had {the_thing} again, and {result}.
L {reception}
S {ending}
L {ending_more}
N {moral}"""
CONTINUES_AT = "{decision}"  # the sentence with which a story that was begun by others goes on

# What a real story's opening has not told is told first.
ADOPTED = """
S For a long time the {hero} did not know what to do about it.
S {habit}
N At that time {he} still had {thing}, and {he} loved it because {why}.
S But one night, when {he} was {away}, {took}, and when {he} came back it was not there any more."""

# Key words of a real story's opening that choose enemy and thing of its continuation; the first that occurs, else the first row.
ENEMIES_IN_STORIES = {
    "hill": "a giant", "mountain": "a giant", "forest": "a witch", "wood": "a witch", "woods": "a witch", "river": "a water spirit",
    "sea": "a water spirit", "water": "a water spirit", "castle": "a dragon", "palace": "a dragon", "brother": "a wicked uncle",
    "brothers": "a wicked uncle", "sister": "a wicked uncle", "sisters": "a wicked uncle", "house": "a gang of thieves",
    "home": "a gang of thieves", "door": "a gang of thieves", "wind": "the north wind", "snow": "the north wind",
    "night": "the north wind", "day": "a troll", "time": "a giant",
}  # fmt: skip
THINGS_IN_STORIES = {
    "gold": "a golden ring", "golden": "a golden ring", "ring": "a golden ring", "money": "a bag of gold", "rich": "a bag of gold",
    "poor": "a bag of gold", "horse": "a white horse", "horses": "a white horse", "tree": "a little bird", "bird": "a little bird",
    "birds": "a little bird", "dress": "a red coat", "clothes": "a red coat", "cold": "a red coat", "light": "a magic lamp",
    "fire": "a magic lamp", "eyes": "a blue stone", "saw": "a blue stone", "heard": "a wooden flute", "sing": "a wooden flute",
    "told": "an old book", "asked": "an old book", "said": "a silver bell",
}  # fmt: skip
