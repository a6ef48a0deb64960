#include "data/story_rules.hpp"

namespace cohort {

// No first form may begin another of the same character ("Ann", "Anna"), and friends are not heroes: a story has no two of one
// name.
const std::string_view kStoryCharacters = R"(
character hero name he him his
  5 Lily | she | her | her
  4 Mia | she | her | her
  3 Anna | she | her | her
  3 Rosa | she | her | her
  2 Nora | she | her | her
  2 Zoe | she | her | her
  1 Ruth | she | her | her
  1 Ivy | she | her | her
  5 Tom | he | him | his
  4 Ben | he | him | his
  3 Max | he | him | his
  3 Leo | he | him | his
  2 Finn | he | him | his
  2 Omar | he | him | his
  1 Jack | he | him | his
  1 Hugo | he | him | his
character friend name he him his
  3 Emma | she | her | her
  2 Lucy | she | her | her
  2 Sara | she | her | her
  1 June | she | her | her
  3 Tim | he | him | his
  2 Noah | he | him | his
  2 Kai | he | him | his
  1 Peter | he | him | his
character elder name he him his
  4 Grandma | she | her | her
  3 Grandpa | he | him | his
  3 Mother | she | her | her
  2 Father | he | him | his
  1 Aunt May | she | her | her
  1 Uncle Joe | he | him | his
character animal name home
  4 rabbit | hole
  3 fox | den
  3 squirrel | tree
  3 duck | pond
  2 mouse | hole in the wall
  2 hedgehog | bed of leaves
  2 frog | lily pad
  1 turtle | warm stone
  1 bear cub | cave
  1 kitten | basket
character place to in the
  5 into the forest | in the forest | the forest
  4 down to the river | by the river | the river
  3 up the hill | on the hill | the hill
  3 into the garden | in the garden | the garden
  2 to the lake | at the lake | the lake
  2 out to the meadow | in the meadow | the meadow
  1 to the farm | at the farm | the farm
  1 across the old bridge | on the far side of the bridge | the old bridge
character thing a the
  4 a red ball | the ball
  3 a blue kite | the kite
  3 a wooden boat | the boat
  2 a silver bell | the bell
  2 a yellow hat | the hat
  2 a picture book | the book
  1 a little drum | the drum
  1 an old key | the key
  1 a glass marble | the marble
character food a the
  3 an apple pie | the pie
  3 a honey cake | the cake
  2 a loaf of fresh bread | the bread
  2 a piece of cheese | the cheese
  1 a big sweet pear | the pear
  1 a bowl of berries | the bowl of berries
character skill do did
  3 swim | swam
  3 ride a bike | rode a bike
  2 climb the tall tree | climbed the tall tree
  2 whistle a song | whistled a song
  2 fly a kite | flew a kite
  1 row a boat | rowed a boat
  1 skip a stone | skipped a stone
  1 tell the time | told the time
)";

}  // namespace cohort
